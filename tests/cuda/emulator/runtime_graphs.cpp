#include <cuda_runtime_api.h>

#include "tests/cuda/emulator/machine.h"

// The CUDA runtime's functions about recorded work. A graph is the chain of
// one stream's operations.

namespace emulator = troupe::emulator;
using emulator::call;
using emulator::Capture;
using emulator::Device;
using emulator::Graph;
using emulator::machine;
using emulator::Stream;
using emulator::stream_call;

namespace {

/// The capture's operations, taken off the stream; null when it failed.
cudaError_t end(Stream& stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!stream.capture) {
    return cudaErrorIllegalState;
  }
  if (stream.capture->mode == cudaStreamCaptureModeThreadLocal &&
      stream.capture->thread != std::this_thread::get_id()) {
    stream.capture->is_valid = false;
    return cudaErrorStreamCaptureWrongThread;
  }
  const std::unique_ptr<Capture> capture = std::move(stream.capture);
  emulator::capturing_stream() = nullptr;
  for (const auto& event : machine().events) {
    if (event->captured_by == &stream) {
      event->captured_by = nullptr;
    }
  }
  if (!capture->is_valid) {
    return cudaErrorStreamCaptureInvalidated;
  }
  auto* made = new Graph{std::make_shared<const emulator::Operations>(
                             std::move(capture->operations)),
                         stream.device};
  machine().graphs.insert(made);
  *graph = reinterpret_cast<cudaGraph_t>(made);
  return cudaSuccess;
}

cudaError_t destroy(std::set<Graph*>& live, Graph* graph) {
  if (live.erase(graph) == 0) {
    return cudaErrorInvalidValue;
  }
  delete graph;
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call("cudaThreadExchangeStreamCaptureMode", [&] {
    std::swap(*mode, emulator::capture_mode());
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle,
                                   cudaStreamCaptureMode mode) {
  return stream_call("cudaStreamBeginCapture", handle,
                     [&](Stream& stream, Device&) {
                       if (handle == nullptr) {
                         return cudaErrorStreamCaptureUnsupported;
                       }
                       if (stream.capture) {
                         return cudaErrorIllegalState;
                       }
                       stream.capture = std::make_unique<Capture>();
                       stream.capture->mode = mode;
                       stream.capture->thread = std::this_thread::get_id();
                       emulator::capturing_stream() = &stream;
                       return cudaSuccess;
                     });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return stream_call(
      "cudaStreamEndCapture", handle,
      [&](Stream& stream, Device&) { return end(stream, graph); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle,
                                  cudaStreamCaptureStatus* status) {
  return stream_call("cudaStreamIsCapturing", handle,
                     [&](Stream& stream, Device&) {
                       *status = !stream.capture ? cudaStreamCaptureStatusNone
                                 : stream.capture->is_valid
                                     ? cudaStreamCaptureStatusActive
                                     : cudaStreamCaptureStatusInvalidated;
                       return cudaSuccess;
                     });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  return call("cudaGraphInstantiate", [&] {
    auto* recorded = reinterpret_cast<Graph*>(graph);
    if (!machine().graphs.contains(recorded)) {
      return cudaErrorInvalidValue;
    }
    auto* made = new Graph(*recorded);
    machine().executables.insert(made);
    *executable = reinterpret_cast<cudaGraphExec_t>(made);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t /*executable*/,
                            cudaStream_t /*stream*/) {
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  return stream_call(
      "cudaGraphLaunch", handle, [&](Stream& stream, Device& device) {
        auto* graph = reinterpret_cast<Graph*>(executable);
        if (!machine().executables.contains(graph)) {
          return cudaErrorInvalidValue;
        }
        if (graph->device != stream.device) {
          return cudaErrorInvalidResourceHandle;
        }
        ++device.counters.graph_launches;
        for (const emulator::Operation& operation : *graph->operations) {
          if (const cudaError_t status = emulator::push(stream, operation)) {
            return status;
          }
        }
        return cudaSuccess;
      });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call("cudaGraphDestroy", [&] {
    return destroy(machine().graphs, reinterpret_cast<Graph*>(graph));
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call("cudaGraphExecDestroy", [&] {
    return destroy(machine().executables, reinterpret_cast<Graph*>(executable));
  });
}

}  // extern "C"

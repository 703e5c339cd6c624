#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>

#include "tests/cuda/emulator/libraries.h"
#include "tests/cuda/emulator/machine.h"

// The CUDA runtime's functions about streams and events, and the driver's about
// values that streams write and wait for.

namespace emulator = troupe::emulator;
using emulator::Device;
using emulator::device_call;
using emulator::Event;
using emulator::machine;
using emulator::Stream;
using emulator::stream_call;

namespace {

cudaError_t new_stream(const char* function, cudaStream_t* handle) {
  return device_call(function, [&](Device& device) {
    Stream& stream = machine().streams.emplace_back();
    stream.device = device.index;
    *handle = reinterpret_cast<cudaStream_t>(&stream);
    return cudaSuccess;
  });
}

cudaError_t new_event(const char* function, cudaEvent_t* handle,
                      unsigned flags) {
  return device_call(function, [&](Device& device) {
    const auto& event =
        machine().events.emplace_back(std::make_shared<Event>());
    event->device = device.index;
    event->has_time = (flags & cudaEventDisableTiming) == 0;
    *handle = reinterpret_cast<cudaEvent_t>(event.get());
    return cudaSuccess;
  });
}

/// Null for what is no event. Queued work holds its events: they may be
/// destroyed before it runs.
std::shared_ptr<Event> event_of(cudaEvent_t handle) {
  for (const auto& event : machine().events) {
    if (reinterpret_cast<cudaEvent_t>(event.get()) == handle) {
      return event;
    }
  }
  return nullptr;
}

/// The body of a function about an event of a device that is not lost.
cudaError_t event_call(const char* function, cudaEvent_t handle,
                       const std::function<cudaError_t(Event&, Device&)>& fn) {
  return emulator::call(function, [&] {
    const auto event = event_of(handle);
    if (event == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    Device& device = machine().devices[static_cast<std::size_t>(event->device)];
    return device.lost != cudaSuccess ? device.lost : fn(*event, device);
  });
}

/// For waits: of an event inside a capture there is no end yet.
cudaError_t refuse_wait(const Event& event) {
  if (event.captured_by != nullptr) {
    return cudaErrorCapturedEvent;
  }
  return emulator::refuse_in_capture();
}

/// A value in pinned memory of the host.
std::atomic_ref<std::uint32_t> value_at(CUdeviceptr address) {
  return std::atomic_ref(
      *reinterpret_cast<std::uint32_t*>(static_cast<std::uintptr_t>(address)));
}

CUresult write_value(CUstream handle, CUdeviceptr address, cuuint32_t value,
                     unsigned /*flags*/) {
  return static_cast<CUresult>(
      stream_call("cuStreamWriteValue32", handle, [&](Stream& stream, Device&) {
        return emulator::push(
            stream, {.name = "the write of a value",
                     .run = [address, value] { value_at(address) = value; },
                     .is_ready = {},
                     .is_work = false});
      }));
}

CUresult wait_value(CUstream handle, CUdeviceptr address, cuuint32_t value,
                    unsigned flags) {
  if (flags != CU_STREAM_WAIT_VALUE_GEQ) {
    emulator::report_bug("a wait for a value that is not emulated");
  }
  return static_cast<CUresult>(
      stream_call("cuStreamWaitValue32", handle, [&](Stream& stream, Device&) {
        return emulator::push(
            stream, {.name = "a wait for a value",
                     .run = {},
                     .is_ready =
                         [address, value] {
                           return static_cast<std::int32_t>(value_at(address) -
                                                            value) >= 0;
                         },
                     .is_work = false,
                     .waits_for_ranks = true});
      }));
}

/// Runs one step, so that the polling of a host comes to an end.
void run_a_little(const Stream* wanted) {
  auto& streams = machine().streams;
  std::uint64_t before = 0;
  for (const Stream& stream : streams) {
    before += stream.num_done;
  }
  if (std::all_of(streams.begin(), streams.end(),
                  [](const Stream& stream) { return stream.queue.empty(); }) ||
      !emulator::can_go_on()) {
    return;
  }
  emulator::run_until(
      [&] {
        std::uint64_t now = 0;
        for (const Stream& stream : streams) {
          now += stream.num_done;
        }
        return now > before || !emulator::can_go_on();
      },
      wanted);
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return new_stream("cudaStreamCreate", stream);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream,
                                      unsigned /*flags*/) {
  return new_stream("cudaStreamCreateWithFlags", stream);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream,
                                         unsigned /*flags*/, int /*priority*/) {
  return new_stream("cudaStreamCreateWithPriority", stream);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return stream_call("cudaStreamDestroy", handle, [](Stream& it, Device& of) {
    // The real one is released when its work is done.
    const cudaError_t status = of.hangs ? cudaSuccess : emulator::finish(it);
    if (emulator::capturing_stream() == &it) {
      emulator::capturing_stream() = nullptr;
    }
    machine().streams.remove_if(
        [&](const Stream& stream) { return &stream == &it; });
    return status;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return stream_call(
      "cudaStreamSynchronize", handle, [](Stream& stream, Device& device) {
        ++device.counters.host_waits;
        if (stream.capture) {
          stream.capture->is_valid = false;
          return cudaErrorStreamCaptureUnsupported;
        }
        const cudaError_t status = emulator::refuse_in_capture();
        return status != cudaSuccess ? status : emulator::finish(stream);
      });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return stream_call(
      "cudaStreamQuery", handle, [](Stream& stream, Device& device) {
        if (const cudaError_t status = emulator::refuse_in_capture()) {
          return status;
        }
        run_a_little(&stream);
        if (device.lost != cudaSuccess) {
          return device.lost;
        }
        return stream.queue.empty() ? cudaSuccess : cudaErrorNotReady;
      });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t waited,
                                unsigned /*flags*/) {
  return stream_call(
      "cudaStreamWaitEvent", handle, [&](Stream& stream, Device&) {
        const auto event = event_of(waited);
        if (event == nullptr) {
          return cudaErrorInvalidResourceHandle;
        }
        if (event->captured_by == &stream) {
          return cudaSuccess;
        }
        if (event->captured_by != nullptr) {
          emulator::report_bug("a capture of two streams is not emulated");
        }
        if (stream.capture) {
          // What came before a capture cannot be waited for inside it.
          stream.capture->is_valid = false;
          return cudaErrorStreamCaptureIsolation;
        }
        const std::uint64_t record = event->num_recorded;
        return emulator::push(
            stream,
            {.name = "a wait for an event",
             .run = {},
             .is_ready = [event, record] { return event->num_done >= record; },
             .is_work = false});
      });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t fn,
                               void* data) {
  return stream_call("cudaLaunchHostFunc", handle, [&](Stream& it, Device&) {
    return emulator::push(it, {"a host function", [fn, data] { fn(data); }});
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return new_event("cudaEventCreate", event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return new_event("cudaEventCreateWithFlags", event, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return event_call("cudaEventDestroy", handle, [](Event& it, Device&) {
    machine().events.remove_if(
        [&](const auto& event) { return event.get() == &it; });
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t on) {
  return stream_call("cudaEventRecord", on, [&](Stream& stream, Device&) {
    const auto event = event_of(handle);
    if (event == nullptr || event->device != stream.device) {
      return cudaErrorInvalidResourceHandle;
    }
    if (stream.capture) {
      event->captured_by = &stream;
      return cudaSuccess;
    }
    event->captured_by = nullptr;
    const std::uint64_t record = ++event->num_recorded;
    return emulator::push(stream, {.name = "the record of an event",
                                   .run =
                                       [event, record] {
                                         event->num_done = record;
                                         event->when =
                                             std::chrono::steady_clock::now();
                                       },
                                   .is_ready = {},
                                   .is_work = false});
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return event_call(
      "cudaEventSynchronize", handle, [](Event& event, Device& device) {
        ++device.counters.host_waits;
        if (const cudaError_t status = refuse_wait(event)) {
          return status;
        }
        const std::uint64_t record = event.num_recorded;
        emulator::run_until([&] { return event.num_done >= record; }, nullptr);
        return device.lost;
      });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return event_call("cudaEventQuery", handle, [](Event& event, Device& device) {
    if (const cudaError_t status = refuse_wait(event)) {
      return status;
    }
    run_a_little(nullptr);
    if (device.lost != cudaSuccess) {
      return device.lost;
    }
    return event.num_done >= event.num_recorded ? cudaSuccess
                                                : cudaErrorNotReady;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from,
                                 cudaEvent_t to) {
  return event_call("cudaEventElapsedTime", from, [&](Event& start, Device&) {
    const auto end = event_of(to);
    if (end == nullptr || !start.has_time || !end->has_time) {
      return cudaErrorInvalidResourceHandle;
    }
    if (start.num_done < start.num_recorded ||
        end->num_done < end->num_recorded) {
      return cudaErrorNotReady;
    }
    *milliseconds =
        std::chrono::duration<float, std::milli>(end->when - start.when)
            .count();
    return cudaSuccess;
  });
}

}  // extern "C"

namespace troupe::emulator {

kernels::cuda::Driver emulated_driver() {
  if (!config().stream_values) {
    return {};
  }
  return {write_value, wait_value};
}

}  // namespace troupe::emulator

#include "kernels/cuda/stream_event.cuh"

#include <utility>

#include "kernels/core/device.h"

namespace troupe::kernels::cuda {
namespace {

/// A question to CUDA spoils a recording as a wait does.
constexpr const char* kRefused = "the host waits while work is recorded";

}  // namespace

StreamEvent::StreamEvent(std::shared_ptr<Stream> stream,
                         std::shared_ptr<MarkCounter> counter)
    : stream_(std::move(stream)), counter_(std::move(counter)) {
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "mark");
  const cudaError_t recorded = cudaEventRecord(event_, stream_->get());
  try {
    check(recorded, "mark");
    number_ = counter_ ? counter_->add() : 0;
  } catch (...) {
    ignore(cudaEventDestroy(event_));
    throw;
  }
}

std::shared_ptr<MarkCounter> StreamEvent::hold(cudaStream_t stream) const {
  if (counter_) {
    counter_->hold(stream, number_);
  } else {
    check(cudaStreamWaitEvent(stream, event_, 0), kWaitPlace);
  }
  return counter_;
}

StreamEvent::~StreamEvent() {
  const OnDevice on(stream_->device());
  // CUDA releases a pending event once the event has happened.
  ignore(cudaEventDestroy(event_));
}

std::string StreamEvent::where() const {
  return to_string(Device{DeviceKind::cuda, stream_->device()});
}

bool StreamEvent::has_passed() {
  stream_->refuse_while_recording(kRefused);
  stream_->refuse_if_abandoned();
  const OnDevice on(stream_->device());
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    // An answer, which CUDA keeps for the next check as it does an error.
    ignore(status);
    return false;
  }
  check(status, where());
  return true;
}

void StreamEvent::wait() {
  stream_->refuse_while_recording(kRefused);
  stream_->refuse_if_abandoned();
  const OnDevice on(stream_->device());
  check(cudaEventSynchronize(event_), where());
}

}  // namespace troupe::kernels::cuda

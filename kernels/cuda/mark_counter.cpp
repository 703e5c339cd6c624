#include "kernels/cuda/mark_counter.cuh"

#include <utility>

#include "kernels/core/error.h"
#include "kernels/cuda/pinned.cuh"

namespace troupe::kernels::cuda {
namespace {

/// The driver's codes are those of its runtime.
void check_driver(CUresult status, std::string_view place) {
  check(static_cast<cudaError_t>(status), place);
}

}  // namespace

MarkCounter::MarkCounter(std::shared_ptr<Stream> stream, const Driver& driver)
    : stream_(std::move(stream)), driver_(driver) {
  require(driver_.write_value != nullptr && driver_.wait_value != nullptr,
          Errc::unsupported, kWaitPlace,
          "the driver has no cuStreamWriteValue32",
          "install a newer driver, or compute with one GPU");
  passed_ = reinterpret_cast<std::uint32_t*>(pin_memory(sizeof(std::uint32_t)));
  *passed_ = 0;
}

MarkCounter::~MarkCounter() {
  if (stream_->is_abandoned()) {
    return;
  }
  const std::scoped_lock lock(set_up_mutex());
  const OnDevice on(stream_->device());
  ignore(cudaStreamSynchronize(stream_->get()));
  ignore(cudaFreeHost(passed_));
}

CUdeviceptr MarkCounter::address() const {
  // Pinned memory has one address on the host and on all devices.
  return static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(passed_));
}

std::uint32_t MarkCounter::add() {
  const std::uint32_t number = set_ + 1;
  check_driver(driver_.write_value(stream_->get(), address(), number,
                                   CU_STREAM_WRITE_VALUE_DEFAULT),
               "mark");
  set_ = number;
  return number;
}

void MarkCounter::hold(cudaStream_t stream, std::uint32_t number) const {
  check_driver(
      driver_.wait_value(stream, address(), number, CU_STREAM_WAIT_VALUE_GEQ),
      kWaitPlace);
}

std::uint32_t MarkCounter::marks_passed() const {
  return std::atomic_ref(*passed_).load(std::memory_order_acquire);
}

void MarkCounter::release_waiters() {
  std::atomic_ref(*passed_).store(set_, std::memory_order_release);
}

}  // namespace troupe::kernels::cuda

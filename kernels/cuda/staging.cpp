#include "kernels/cuda/staging.cuh"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cuda/pinned.cuh"

namespace troupe::kernels::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

}  // namespace

Staging::Staging(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}

Staging::~Staging() {
  if (stream_->is_abandoned()) {
    return;
  }
  const std::scoped_lock lock(set_up_mutex());
  const OnDevice on(stream_->device());
  ignore(cudaStreamSynchronize(stream_->get()));
  for (const Slot& slot : slots_) {
    if (slot.done != nullptr) {
      ignore(cudaEventDestroy(slot.done));
    }
    if (slot.memory != nullptr) {
      ignore(cudaFreeHost(slot.memory));
    }
  }
}

void Staging::add_slot() {
  const std::scoped_lock lock(set_up_mutex());
  Slot& slot = slots_.emplace_back();
  try {
    slot.memory = pin_memory(kSlotBytes);
    check(cudaEventCreateWithFlags(&slot.done, cudaEventDisableTiming),
          "staging");
  } catch (...) {
    if (slot.memory != nullptr) {
      ignore(cudaFreeHost(slot.memory));
    }
    slots_.pop_back();
    throw;
  }
}

void Staging::next_slot() {
  if (!slots_.empty()) {
    check(cudaEventRecord(slots_[slot_].done, stream_->get()), "staging");
  }
  if (slots_.size() < kSlots) {
    add_slot();
    slot_ = slots_.size() - 1;
  } else {
    const std::size_t next = (slot_ + 1) % kSlots;
    check(cudaEventSynchronize(slots_[next].done), "staging");
    slot_ = next;
  }
  used_ = 0;
}

void Staging::to_device(const std::byte* from, std::byte* to,
                        std::size_t bytes) {
  while (bytes > 0) {
    if (slots_.empty() || used_ == kSlotBytes) {
      next_slot();
    }
    const std::size_t now = std::min(bytes, kSlotBytes - used_);
    std::byte* staged = slots_[slot_].memory + used_;
    std::memcpy(staged, from, now);
    check(cudaMemcpyAsync(to, staged, now, cudaMemcpyHostToDevice,
                          stream_->get()),
          "copy to the device");
    used_ = std::min(kSlotBytes,
                     (used_ + now + kAlignment - 1) / kAlignment * kAlignment);
    from += now;
    to += now;
    bytes -= now;
  }
}

}  // namespace troupe::kernels::cuda

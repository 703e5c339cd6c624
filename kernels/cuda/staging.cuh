#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/cuda/stream.cuh"

namespace troupe::kernels::cuda {

/// Copies host data to the device through pinned memory, so that the source may
/// be reused as soon as a copy is queued. A few slots take turns: before one is
/// written again, its copies must be done. Thread: one.
class Staging {
 public:
  static constexpr std::size_t kSlotBytes = std::size_t{4} << 20U;
  static constexpr std::size_t kSlots = 4;

  explicit Staging(std::shared_ptr<Stream> stream);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Queues a copy on the stream, whose device is the thread's current one.
  /// Errors: Errc::out_of_memory (pinned), Errc::device_full,
  /// Errc::device_lost.
  void to_device(const std::byte* from, std::byte* to, std::size_t bytes);

 private:
  struct Slot {
    std::byte* memory = nullptr;
    cudaEvent_t done = nullptr;
  };
  void add_slot();
  void next_slot();

  std::shared_ptr<Stream> stream_;
  std::vector<Slot> slots_;
  std::size_t slot_ = 0;
  std::size_t used_ = 0;
};

}  // namespace troupe::kernels::cuda

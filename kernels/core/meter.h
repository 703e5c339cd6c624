#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/core/device_backend.h"

namespace troupe {

/// A device that computes nothing and has no memory: tensors on it have shapes
/// and addresses, but no elements. An operation checks its arguments as on any
/// device, and then only adds up its work here. So a network that runs on a
/// context of a meter (`ExecContext(meter)`) says what it costs: operations
/// here, memory as `Workspace::peak_bytes`.
///
/// A meter stands for a CPU or a GPU: an operation takes as much workspace as
/// on that device. Nobody may read or write elements.
/// Thread: as DeviceBackend.
class Meter final : public DeviceBackend {
 public:
  explicit Meter(DeviceKind stands_for) : stands_for_(stands_for) {}

  /// cpu or cuda.
  [[nodiscard]] DeviceKind stands_for() const noexcept { return stands_for_; }

  /// Floating-point operations of matrix products, convolutions and attention
  /// so far: two for a product and its addition. Element-wise work is left out.
  [[nodiscard]] double flops() const noexcept { return flops_; }
  void add_flops(double flops) noexcept { flops_ += flops; }

  /// On a CPU, the most that one call took for each thread beside the
  /// workspace: of attention, and of convolutions.
  [[nodiscard]] std::size_t attention_thread_bytes() const noexcept {
    return attention_thread_bytes_;
  }
  [[nodiscard]] std::size_t convolution_thread_bytes() const noexcept {
    return convolution_thread_bytes_;
  }
  void note_attention(std::size_t thread_bytes) noexcept {
    attention_thread_bytes_ = std::max(attention_thread_bytes_, thread_bytes);
  }
  void note_convolution(std::size_t thread_bytes) noexcept {
    convolution_thread_bytes_ =
        std::max(convolution_thread_bytes_, thread_bytes);
  }

  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  void copy(const Tensor& /*from*/, Tensor& /*to*/) override {}
  void copy_columns(const Tensor& /*from*/, std::int64_t /*from_first*/,
                    Tensor& /*to*/, std::int64_t /*to_first*/,
                    std::int64_t /*count*/) override {}
  [[nodiscard]] Tensor read_back(const Tensor& from) override;
  [[nodiscard]] std::unique_ptr<DeviceEvent> mark() override;
  void wait_for(const DeviceEvent& /*event*/) override {}
  void synchronize() override {}
  void* queue() override { return nullptr; }
  /// Calls fn each time.
  bool replay(std::span<const std::uint64_t> /*key*/,
              const std::function<void()>& fn) override {
    fn();
    return true;
  }
  void between(const std::function<void()>& fn) override { fn(); }
  void forget_recordings() override {}

 private:
  DeviceKind stands_for_;
  double flops_ = 0;
  std::size_t attention_thread_bytes_ = 0;
  std::size_t convolution_thread_bytes_ = 0;
  /// Where the next memory begins. No program has memory there.
  std::uintptr_t next_ = std::uintptr_t{1} << 56U;
};

}  // namespace troupe

#pragma once

#include "tests/cuda/support.h"

namespace troupe::kernels {

/// A view of `host`'s elements on ctx's device that starts `shift` elements
/// after an aligned address.
[[nodiscard]] inline Tensor shifted_upload(ExecContext& ctx, const Tensor& host,
                                           std::int64_t shift) {
  const std::int64_t count = host.num_elements();
  const Tensor memory = poisoned(ctx, {shift + count}, host.dtype());
  Tensor view = memory.slice(shift, shift + count).reshape(host.shape());
  copy(ctx, host, view);
  return view;
}

/// A poisoned view that starts `shift` elements after an aligned address,
/// between elements that nothing may write.
class GuardedOutput {
 public:
  GuardedOutput(ExecContext& ctx, const Shape& shape, DType dtype,
                std::int64_t shift)
      : shift_(shift),
        memory_(poisoned(ctx, {shift + shape.num_elements() + kAfter}, dtype)),
        tensor(
            memory_.slice(shift, shift + shape.num_elements()).reshape(shape)) {
  }

  /// Whether the elements around the view are as they were. Waits.
  [[nodiscard]] bool intact(ExecContext& ctx) const {
    const Tensor host = download(ctx, memory_);
    const auto size = static_cast<std::int64_t>(size_of(host.dtype()));
    const auto* bytes =
        reinterpret_cast<const unsigned char*>(host.bytes().data());
    const auto end = static_cast<std::int64_t>(host.num_bytes());
    for (std::int64_t i = 0; i < end; ++i) {
      const bool is_around = i < shift_ * size || i >= end - kAfter * size;
      if (is_around && bytes[i] != 0xff) {
        return false;
      }
    }
    return true;
  }

 private:
  static constexpr std::int64_t kAfter = 16;
  std::int64_t shift_;
  Tensor memory_;

 public:
  Tensor tensor;
};

inline constexpr DType kFloats[] = {DType::f32, DType::bf16, DType::f16};

}  // namespace troupe::kernels

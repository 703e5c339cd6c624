#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "kernels/cuda/backend.cuh"

// Operands for libraries that rely on the alignment of their first byte. One
// that is not aligned is copied, because another algorithm would give other
// bits.

namespace troupe::kernels::cuda {

[[nodiscard]] inline bool is_aligned(const Tensor& tensor,
                                     std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(tensor.bytes().data()) % alignment ==
         0;
}

/// The tensor, or a copy of it in the workspace.
[[nodiscard]] inline Tensor aligned_input(ExecContext& ctx,
                                          const Tensor& tensor,
                                          std::size_t alignment) {
  if (is_aligned(tensor, alignment)) {
    return tensor;
  }
  Tensor copied = ctx.workspace().take(tensor.shape(), tensor.dtype());
  Backend::of(ctx).copy(tensor, copied);
  return copied;
}

/// An aligned place to write a result to: the caller's tensor if it is aligned,
/// otherwise a tensor in the workspace that `finish` copies to the caller's.
class AlignedOutput {
 public:
  AlignedOutput(ExecContext& ctx, Tensor& asked, std::size_t alignment)
      : backend_(Backend::of(ctx)),
        asked_(asked),
        used_(is_aligned(asked, alignment)
                  ? asked
                  : ctx.workspace().take(asked.shape(), asked.dtype())) {}

  [[nodiscard]] Tensor& tensor() noexcept { return used_; }
  /// To be called when the work that writes the result has been queued.
  void finish() {
    if (used_.owner() != asked_.owner()) {
      backend_.copy(used_, asked_);
    }
  }

 private:
  Backend& backend_;
  Tensor& asked_;
  Tensor used_;
};

}  // namespace troupe::kernels::cuda

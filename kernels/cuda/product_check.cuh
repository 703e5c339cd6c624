#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/tensor.h"
#include "kernels/cuda/matmul.cuh"

namespace troupe::kernels::cuda {

/// Generated operands for a batch of one problem, whose sums reveal the order
/// of summation, and room for two results. In each sum a quarter of the terms
/// is large, and those in the second half of k cancel those in the first. What
/// remains depends on the order of the additions, visibly even in bf16. The
/// numbers depend on the problem alone, so the answer does.
///
/// Waits only in `results_agree`.
/// Errors: Errc::device_full.
class ProductCheck {
 public:
  ProductCheck(Backend& backend, const Problem& problem,
               const ProductBatch& batch);

  /// The operands with output `result`, 0 or 1.
  [[nodiscard]] ProductOperands operands(int result);
  /// The same from row `first` of the first item on.
  [[nodiscard]] ProductOperands operands_from(int result, std::int64_t first);
  /// Waits for the queue. Whether all bytes of both outputs agree.
  [[nodiscard]] bool results_agree();

 private:
  [[nodiscard]] Tensor take(const Shape& shape, DType dtype);

  Backend& backend_;
  Tensor weight_;
  Tensor bias_;
  Tensor x_;
  Tensor results_[2];
  Tensor differs_;  ///< u8 [4]: one 32-bit flag
};

}  // namespace troupe::kernels::cuda

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/tensor.h"
#include "kernels/cuda/matmul.cuh"

namespace troupe::kernels::cuda {

/// Operands of a batch of one problem with numbers made to show the order of
/// summation, and room for two results. In each sum a quarter of the terms is
/// large and cancels, the second half of k against the first: what is left
/// depends visibly, in bf16 too, on the order of the additions. The numbers
/// follow from the problem alone, so the verdict does.
///
/// Holds its own memory until its work is done; waits only in `results_agree`.
/// Errors: Errc::device_full.
class ProductCheck {
 public:
  ProductCheck(Backend& backend, const Problem& problem,
               const ProductBatch& batch);

  /// The operands, with the `result`-th of the two outputs.
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

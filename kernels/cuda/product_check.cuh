#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/tensor.h"
#include "kernels/cuda/matmul.cuh"

namespace troupe::kernels::cuda {

/// Queues numbers for sums over `columns` that reveal the order of the
/// additions. Rows of mirrored columns: every fourth pair holds large · u and
/// ±large · u, the rest is uniform in [−1, 1). `cancels`: the sign is −, so the
/// products of such a row and one with `cancels` off leave large sums only in
/// between. A function of its arguments.
void fill_for_sums(Backend& backend, Tensor& values, std::int64_t columns,
                   float large, bool cancels, std::uint32_t seed);
/// How large: partial sums grow to some 2^13 and more while results stay near
/// √k: an f32 addition then errs by about an ulp of bf16 of the result. Exact
/// in f16.
inline constexpr float kLargeTerm = 4096.0F;
/// Whether all bytes of two tensors of one shape agree. Waits for the queue.
[[nodiscard]] bool same_bytes(Backend& backend, const Tensor& a,
                              const Tensor& b);

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
};

}  // namespace troupe::kernels::cuda

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

/// Numbers that are read off tensors. They are queued one by one and waited for
/// together: on a GPU that is one transfer for all. Every call returns the
/// number's place in `wait()`. Tensors are f32 on ctx's device.
///
/// Sums are in double, in an order fixed by the element count and the kind of
/// device alone. Errors: Errc::shape_mismatch, Errc::invalid_argument; more
/// numbers than `capacity` is Errc::internal.
/// Thread: as ctx.
class Readings {
 public:
  Readings(ExecContext& ctx, std::size_t capacity);

  /// Σ (a − b)².
  std::size_t sum_squared_difference(const Tensor& a, const Tensor& b);
  /// Σ a².
  std::size_t sum_squares(const Tensor& a);
  /// 1 when every byte agrees, else 0.
  std::size_t bytes_equal(const Tensor& a, const Tensor& b);
  /// 1 when every element is finite, else 0.
  std::size_t all_finite(const Tensor& x);

  /// All numbers queued so far, in the order of the calls. On a GPU it waits
  /// for the queue.
  [[nodiscard]] std::span<const double> wait();

 private:
  /// The place of a new number.
  std::size_t next();

  ExecContext& ctx_;
  std::size_t capacity_;
  Tensor device_values_;        ///< f64 as u8 [capacity, 8]; empty on the CPU
  std::vector<double> values_;  ///< CPU: known at once; else as last read
  std::size_t count_ = 0;
};

/// The carry of the Picard family, decided where the data are: out = step where
/// x_new and x_old are equal in every byte (no addition: −0.0 + 0 is not −0.0),
/// else step + carry · (x_new − x_old), rounded after each operation.
/// All f32 of one shape on ctx's device; out may alias step.
/// Source: Shih et al. 2023, arXiv:2305.16317; Tang et al. 2024,
/// arXiv:2402.09970.
void add_carry(ExecContext& ctx, const Tensor& step, double carry,
               const Tensor& x_new, const Tensor& x_old, Tensor& out);

}  // namespace troupe::kernels

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

/// Reductions of tensors to single numbers. Reductions are queued one by one;
/// `wait` or `send` reads all numbers back together, on a GPU in one transfer.
/// Each call returns the index of its number. Tensors are f32 on ctx's device.
///
/// Either `wait()` for the numbers; or `send()` them, take a mark of ctx, queue
/// more work, and read `values()` when the mark has passed.
///
/// Sums are in double. Their order depends on the number of elements and the
/// kind of device alone. Errors: Errc::shape_mismatch, Errc::invalid_argument;
/// Errc::internal for more numbers than `capacity`.
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

  /// Queues the copy of all numbers to the host. Call it once, after the last
  /// reduction. Does nothing on the CPU. Errors: as read_back.
  void send();
  /// The numbers that were sent (on the CPU: all), in the order of the calls.
  /// To be called when a mark that ctx took after `send` has passed. The span
  /// is valid until the next call of any function of this object.
  /// Errors: Errc::internal when there are numbers and `send` was not called.
  [[nodiscard]] std::span<const double> values();

  /// Sends all numbers, waits for everything that ctx has queued, and returns
  /// the numbers.
  [[nodiscard]] std::span<const double> wait();

 private:
  /// The index of a new number.
  std::size_t next();

  ExecContext& ctx_;
  std::size_t capacity_;
  Tensor device_values_;  ///< f64 as u8 [capacity, 8]; empty on the CPU
  Tensor sent_;           ///< f64 as u8 [sent, 8], pinned; none on the CPU
  std::vector<double> values_;  ///< CPU: known at once; else as last read
  std::size_t count_ = 0;
};

/// The carry of the Picard family. If x_new and x_old are equal in every byte,
/// out = step (nothing is added: −0.0 + 0 would not be −0.0). Otherwise
/// out = step + carry · (x_new − x_old), rounded after each operation. The
/// device itself compares; the host does not wait.
/// All f32 of one shape on ctx's device; out may alias step.
/// Source: Shih et al. 2023, arXiv:2305.16317; Tang et al. 2024,
/// arXiv:2402.09970.
void add_carry(ExecContext& ctx, const Tensor& step, double carry,
               const Tensor& x_new, const Tensor& x_old, Tensor& out);

}  // namespace troupe::kernels

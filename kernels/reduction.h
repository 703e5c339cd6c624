#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

/// Numbers that are read off tensors. They are queued one by one and read back
/// together: on a GPU that is one transfer for all. Every call returns the
/// number's place among them. Tensors are f32 on ctx's device.
///
/// Either `wait()` for them, or `send()` them, take a mark of ctx, queue more
/// work, and look at the `values()` when the mark has passed.
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

  /// Queues the way of all numbers so far to the host: once, after the last.
  /// Nothing on the CPU. Errors: as read_back.
  void send();
  /// The numbers that were sent (the CPU's: all), in the order of the calls;
  /// right once a mark that ctx took after `send` has passed. Valid until the
  /// next call of anything here.
  /// Errors: Errc::internal when there are numbers and none was sent.
  [[nodiscard]] std::span<const double> values();

  /// All numbers queued so far, sent, waited for and read: on a GPU it waits
  /// for what ctx has queued so far.
  [[nodiscard]] std::span<const double> wait();

 private:
  /// The place of a new number.
  std::size_t next();

  ExecContext& ctx_;
  std::size_t capacity_;
  Tensor device_values_;  ///< f64 as u8 [capacity, 8]; empty on the CPU
  Tensor sent_;           ///< f64 as u8 [sent, 8], pinned; none on the CPU
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

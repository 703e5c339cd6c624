#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/activation.h"
#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "kernels/row_blocks.h"

namespace troupe::kernels {

/// A weight matrix [N, K] (out features, in features) and bias [N], packed once
/// for a compute type into the layout that the library multiplies fastest, on
/// the context's device. Immutable; all workers of the device share the packed
/// weights. On a GPU others may use it once the context that packed it has
/// synchronised.
///
/// On the CPU the columns are cut into panels whose width follows from (N, K)
/// alone. So the shape of every matrix product, and with it every bit of the
/// result, does not depend on batch or thread count. On a GPU one algorithm
/// serves every batch, unless DeviceOptions::batch_invariant is off.
class PackedLinear {
 public:
  /// Without weights: in_features() and out_features() are 0.
  PackedLinear();
  ~PackedLinear();
  PackedLinear(PackedLinear&&) noexcept;
  PackedLinear& operator=(PackedLinear&&) noexcept;

  /// weight: [N, K] f32, bf16 or f16; bias: [N] or an empty tensor; both on the
  /// host. `compute` is f32, bf16 or, on a GPU, f16 (bf16 multiplies bf16 by
  /// bf16 and accumulates in f32; so does f16).
  /// Errors: Errc::shape_mismatch; Errc::unsupported for a compute type the
  /// device lacks (see `supports`).
  PackedLinear(ExecContext& ctx, const Tensor& weight, const Tensor& bias,
               DType compute);

  [[nodiscard]] std::int64_t in_features() const;
  [[nodiscard]] std::int64_t out_features() const;
  [[nodiscard]] DType compute() const;
  /// Bytes of packed weights and bias.
  [[nodiscard]] std::size_t num_bytes() const;

  /// For kernels/offload.h: the matrix [N, K] in the memory of a GPU, or in
  /// pinned memory where it is offloaded; empty on the CPU. The setter takes
  /// one of the same shape and dtype.
  [[nodiscard]] Tensor device_weight() const;
  void set_device_weight(const Tensor& weight);

  struct Impl;
  [[nodiscard]] const Impl* impl() const noexcept { return impl_.get(); }

 private:
  std::unique_ptr<Impl> impl_;
};

/// True when matrix products in `compute` run on this CPU (f32 always does;
/// bf16 needs AVX-512). Honours ONEDNN_MAX_CPU_ISA.
[[nodiscard]] bool supports(DType compute);
/// The same for the device of ctx: a GPU does f32, bf16 and f16.
[[nodiscard]] bool supports(ExecContext& ctx, DType compute);

/// Version of the matrix library that is loaded, such as "2.6.3".
[[nodiscard]] std::string matrix_library_version();

/// out = activation(x · weightᵀ + bias).
///
/// Shapes: x [B, M, K] in the compute type; out [B, M, N] f32 or the compute
///         type.
/// Bits:   an item's bits do not depend on the batch. CPU: one matrix product
///         per (item, block of rows, panel). GPU: items share a product where a
///         check has shown that they keep the bits of an item alone.
/// Shards: x may hold some of the rows of larger items (`whole.rows`): see
///         row_blocks.h. On a GPU the first call with a shard takes memory for
///         a whole item, to compare.
/// Aliasing: out must not overlap x.
/// Errors: Errc::shape_mismatch, Errc::invalid_argument (dtypes, a device other
///         than that of the weights); Errc::unsupported on a GPU whose library
///         computes a shard's rows with other bits.
/// Thread: any, one ctx per thread; `packed` may be shared.
void linear(ExecContext& ctx, const Tensor& x, const PackedLinear& packed,
            Activation activation, Tensor& out, const WholeItem& whole = {});

/// residual += x · weightᵀ + bias. Same bits as `linear` into an f32 tensor
/// followed by `add`.
///
/// Shapes: x [B, M, K] in the compute type; residual [B, M, N] f32.
/// Aliasing: residual must not overlap x.
/// Errors, thread: as `linear`.
void linear_add(ExecContext& ctx, const Tensor& x, const PackedLinear& packed,
                Tensor& residual, const WholeItem& whole = {});

/// residual += gate · (x · weightᵀ + bias): the end of both branches of an
/// adaLN-zero block (with the next branch's norm: residual_stream.h). Same bits
/// as `linear` into an f32 tensor followed by `add_gated`.
///
/// Shapes: x [B, M, K] in the compute type; residual [B, M, N] f32; gate is N
///         columns of `modulation` [B, W] f32 from `gate_column` on.
/// Aliasing: residual must not overlap x.
/// Errors, thread: as `linear`.
void linear_add_gated(ExecContext& ctx, const Tensor& x,
                      const PackedLinear& packed, const Tensor& modulation,
                      std::int64_t gate_column, Tensor& residual,
                      const WholeItem& whole = {});

}  // namespace troupe::kernels

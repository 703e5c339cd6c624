#pragma once

#include <cstdint>
#include <optional>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "kernels/linear.h"
#include "kernels/row_blocks.h"

namespace troupe::kernels {

/// The residual stream of adaLN-zero blocks. A block reads the normalised
/// stream and adds the outputs of its branches.
///
/// An addition may stay pending until the next call: on a GPU one pass over the
/// stream then adds and normalises. On the CPU it is done at once, while the
/// product is in the cache. The bits are those of `linear` into an f32 tensor,
/// `add_gated` and `layer_norm_modulate`, one after the other.
///
/// After an error x may hold the last addition or not. Thread: that of the
/// context.
class ResidualStream {
 public:
  /// x: [B, M, D] f32; modulation: [B, W] f32, where shifts, scales and gates
  /// are D columns each. Shares the memory of both. On a GPU it takes memory
  /// for one product from the workspace: it ends with the caller's Scope.
  ResidualStream(ExecContext& ctx, const Tensor& x, const Tensor& modulation);

  /// out = layer_norm(x) · (1 + scale) + shift, behind all additions.
  ///
  /// Shapes: out [B, M, D] f32 or bf16 (on a GPU also f16).
  /// Errors: as kernels::layer_norm_modulate.
  void layer_norm_modulate(ExecContext& ctx, std::int64_t shift_column,
                           std::int64_t scale_column, float eps, Tensor& out);

  /// x += gate · (y · weightᵀ + bias).
  ///
  /// Shapes: y [B, M, K] in the compute type; D is the weights' N. `y` may be
  ///         overwritten afterwards.
  /// Errors: as kernels::linear_add_gated.
  void add_gated_linear(ExecContext& ctx, const Tensor& y,
                        const PackedLinear& packed, std::int64_t gate_column,
                        const WholeItem& whole = {});

  /// x += y · weightᵀ + bias. Otherwise as add_gated_linear.
  void add_linear(ExecContext& ctx, const Tensor& y, const PackedLinear& packed,
                  const WholeItem& whole = {});

  /// Does what is pending. Before that, x may lack the last addition.
  void settle(ExecContext& ctx);

 private:
  Tensor x_;
  Tensor modulation_;
  Tensor product_;  ///< [B, M, D] f32; empty where nothing stays pending
  struct Pending {
    std::optional<std::int64_t> gate_column;  ///< unset: no gate
  };
  /// How the product is still to be added.
  std::optional<Pending> pending_;
};

}  // namespace troupe::kernels

#include "kernels/residual_stream.h"

#include "kernels/check.h"
#include "kernels/elementwise.h"
#include "kernels/norm.h"

namespace troupe::kernels {
namespace {

constexpr std::string_view kPlace = "residual_stream";

}  // namespace

ResidualStream::ResidualStream(ExecContext& ctx, const Tensor& x,
                               const Tensor& modulation)
    : x_(x), modulation_(modulation) {
  check_device(kPlace, ctx.device(), {&x, &modulation});
  check_rank(kPlace, "x", x, 3);
  check_dtype(kPlace, "x", x, {DType::f32});
  check_rank(kPlace, "modulation", modulation, 2);
  check_dtype(kPlace, "modulation", modulation, {DType::f32});
  check_shape(kPlace, "modulation", modulation.shape(),
              {x.dim(0), modulation.dim(1)});
  if (ctx.kind() == DeviceKind::cuda) {
    product_ = ctx.workspace().take(x.shape(), DType::f32);
  }
}

void ResidualStream::layer_norm_modulate(ExecContext& ctx,
                                         std::int64_t shift_column,
                                         std::int64_t scale_column, float eps,
                                         Tensor& out) {
  if (!pending_) {
    return kernels::layer_norm_modulate(ctx, x_, modulation_, shift_column,
                                        scale_column, eps, out);
  }
  // The fused op moves 18 bytes per element of the residual; the two ops that
  // it replaces move 22.
  add_layer_norm_modulate(ctx, modulation_, pending_->gate_column, product_,
                          shift_column, scale_column, eps, x_, out);
  pending_.reset();
}

void ResidualStream::add_gated_linear(ExecContext& ctx, const Tensor& y,
                                      const PackedLinear& packed,
                                      std::int64_t gate_column,
                                      const WholeItem& whole) {
  if (ctx.kind() == DeviceKind::cpu) {
    return linear_add_gated(ctx, y, packed, modulation_, gate_column, x_,
                            whole);
  }
  check_columns(kPlace, "the gate", gate_column, x_.dim(2), modulation_.dim(1));
  settle(ctx);
  linear(ctx, y, packed, Activation::none, product_, whole);
  pending_ = Pending{gate_column};
}

void ResidualStream::add_linear(ExecContext& ctx, const Tensor& y,
                                const PackedLinear& packed,
                                const WholeItem& whole) {
  if (ctx.kind() == DeviceKind::cpu) {
    return linear_add(ctx, y, packed, x_, whole);
  }
  settle(ctx);
  linear(ctx, y, packed, Activation::none, product_, whole);
  pending_ = Pending{};
}

void ResidualStream::settle(ExecContext& ctx) {
  if (!pending_) {
    return;
  }
  if (pending_->gate_column) {
    add_gated(ctx, modulation_, *pending_->gate_column, product_, x_);
  } else {
    add(ctx, product_, x_);
  }
  pending_.reset();
}

}  // namespace troupe::kernels

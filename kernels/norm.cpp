#include "kernels/norm.h"

#include "kernels/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cuda/ops.h"
#include "kernels/row_blocks.h"

namespace troupe::kernels {
namespace {

/// What both layer norms ask of the residual stream and its modulation.
void check_modulated(std::string_view place, const ExecContext& ctx,
                     const Tensor& x, const Tensor& modulation,
                     std::int64_t shift_column, std::int64_t scale_column,
                     const Tensor& out) {
  check_device(place, ctx.device(), {&x, &modulation, &out});
  check_rank(place, "x", x, 3);
  check_dtype(place, "x", x, {DType::f32});
  check_rank(place, "modulation", modulation, 2);
  check_dtype(place, "modulation", modulation, {DType::f32});
  check_shape(place, "modulation", modulation.shape(),
              {x.dim(0), modulation.dim(1)});
  check_columns(place, "the shift", shift_column, x.dim(2), modulation.dim(1));
  check_columns(place, "the scale", scale_column, x.dim(2), modulation.dim(1));
  check_shape(place, "out", out.shape(), x.shape());
  check_float(place, "out", out, ctx.device());
}

/// x has rows of as many columns as the vectors `weights` have. Errors:
/// Errc::shape_mismatch, Errc::invalid_argument.
void check_rows(std::string_view place, const ExecContext& ctx, const Tensor& x,
                std::initializer_list<const Tensor*> weights,
                const Tensor& out) {
  if (x.shape().rank() < 1) {
    throw Error(Errc::shape_mismatch, place,
                "wrong rank of x: got [], expected at least 1 axis");
  }
  for (const Tensor* weight : weights) {
    check_device(place, ctx.device(), {weight});
    check_shape(place, "a weight", weight->shape(),
                {x.dim(x.shape().rank() - 1)});
    check_dtype(place, "a weight", *weight, {DType::f32});
  }
  check_device(place, ctx.device(), {&x, &out});
  check_shape(place, "out", out.shape(), x.shape());
  check_float(place, "out", out, ctx.device());
}

}  // namespace

void layer_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
                const Tensor& bias, float eps, Tensor& out) {
  constexpr std::string_view kPlace = "layer_norm";
  check_dtype(kPlace, "x", x, {DType::f32});
  check_rows(kPlace, ctx, x, {&weight, &bias}, out);
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::layer_norm(ctx, x, weight, bias, eps, out);
    case DeviceKind::cuda:
      return cuda::layer_norm(ctx, x, weight, bias, eps, out);
    case DeviceKind::meter:
      return;
  }
  throw_no_backend(kPlace, ctx.device());
}

void layer_norm_modulate(ExecContext& ctx, const Tensor& x,
                         const Tensor& modulation, std::int64_t shift_column,
                         std::int64_t scale_column, float eps, Tensor& out) {
  constexpr std::string_view kPlace = "layer_norm_modulate";
  check_modulated(kPlace, ctx, x, modulation, shift_column, scale_column, out);
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::layer_norm_modulate(ctx, x, modulation, shift_column,
                                      scale_column, eps, out);
    case DeviceKind::cuda:
      return cuda::layer_norm_modulate(ctx, x, modulation, shift_column,
                                       scale_column, eps, out);
    case DeviceKind::meter:
      return;
  }
  throw_no_backend(kPlace, ctx.device());
}

void add_layer_norm_modulate(ExecContext& ctx, const Tensor& modulation,
                             std::optional<std::int64_t> gate_column,
                             const Tensor& y, std::int64_t shift_column,
                             std::int64_t scale_column, float eps, Tensor& x,
                             Tensor& out) {
  constexpr std::string_view kPlace = "add_layer_norm_modulate";
  check_modulated(kPlace, ctx, x, modulation, shift_column, scale_column, out);
  if (gate_column) {
    check_columns(kPlace, "the gate", *gate_column, x.dim(2),
                  modulation.dim(1));
  }
  check_device(kPlace, ctx.device(), {&y});
  check_shape(kPlace, "y", y.shape(), x.shape());
  check_float(kPlace, "y", y, ctx.device());
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      if (gate_column) {
        cpu::add_gated(ctx, modulation, *gate_column, y, x);
      } else {
        cpu::add(ctx, y, x);
      }
      return cpu::layer_norm_modulate(ctx, x, modulation, shift_column,
                                      scale_column, eps, out);
    case DeviceKind::cuda:
      return cuda::add_layer_norm_modulate(ctx, modulation, gate_column, y,
                                           shift_column, scale_column, eps, x,
                                           out);
    case DeviceKind::meter:
      return;
  }
  throw_no_backend(kPlace, ctx.device());
}

void rms_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
              float eps, Tensor& out) {
  constexpr std::string_view kPlace = "rms_norm";
  check_float(kPlace, "x", x, ctx.device());
  check_rows(kPlace, ctx, x, {&weight}, out);
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::rms_norm(ctx, x, weight, eps, out);
    case DeviceKind::cuda:
      return cuda::rms_norm(ctx, x, weight, eps, out);
    case DeviceKind::meter:
      return;
  }
  throw_no_backend(kPlace, ctx.device());
}

namespace {

/// What group_norm and its halves check. C: channels of x.
void check_groups(std::string_view place, ExecContext& ctx, const Tensor& x,
                  std::int64_t num_groups) {
  check_float(place, "x", x, ctx.device());
  const std::int64_t channels = x.dim(x.shape().rank() - 1);
  if (num_groups < 1 || channels % num_groups != 0) {
    throw Error(Errc::shape_mismatch, place,
                "channels do not split: got " + std::to_string(channels) +
                    " in " + std::to_string(num_groups) +
                    " groups, expected a multiple");
  }
}

void check_scale_shift(std::string_view place, const Tensor& x,
                       const Tensor& weight, const Tensor& bias,
                       const Tensor& out) {
  const Shape channels{x.dim(x.shape().rank() - 1)};
  check_shape(place, "weight", weight.shape(), channels);
  check_dtype(place, "weight", weight, {DType::f32});
  check_shape(place, "bias", bias.shape(), channels);
  check_dtype(place, "bias", bias, {DType::f32});
  check_shape(place, "out", out.shape(), x.shape());
  check_dtype(place, "out", out, {x.dtype()});
}

void check_moments(std::string_view place, const ExecContext& ctx,
                   std::int64_t here, std::int64_t pixels,
                   std::int64_t num_groups, const Tensor& moments) {
  const std::int64_t block = shard_block(pixels);
  check_shape(place, "moments", moments.shape(),
              {(here + block - 1) / block,
               group_moments_width(ctx, pixels, num_groups)});
  check_dtype(place, "moments", moments, {DType::u8});
}

}  // namespace

void group_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
                const Tensor& bias, std::int64_t num_groups, float eps,
                Activation activation, Tensor& out) {
  constexpr std::string_view kPlace = "group_norm";
  check_device(kPlace, ctx.device(), {&x, &weight, &bias, &out});
  check_rank(kPlace, "x", x, 4);
  check_scale_shift(kPlace, x, weight, bias, out);
  check_groups(kPlace, ctx, x, num_groups);
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::group_norm(ctx, x, weight, bias, num_groups, eps, activation,
                             out);
    case DeviceKind::cuda:
      return cuda::group_norm(ctx, x, weight, bias, num_groups, eps, activation,
                              out);
    case DeviceKind::meter: {
      const Workspace::Scope scope(ctx.workspace());
      if (ctx.kind() == DeviceKind::cpu) {
        (void)ctx.workspace().take(
            {cpu::group_norm_bytes(x.shape(), num_groups)}, DType::u8);
      }
      return;
    }
  }
  throw_no_backend(kPlace, ctx.device());
}

std::int64_t group_moments_width(const ExecContext& ctx, std::int64_t pixels,
                                 std::int64_t num_groups) {
  const std::int64_t part = ctx.kind() == DeviceKind::cpu
                                ? kRowBlock
                                : shard_block(pixels, cuda::kGroupNormPart);
  return shard_block(pixels) / part * cpu::group_moments_width(num_groups);
}

void group_moments(ExecContext& ctx, const Tensor& x, std::int64_t pixels,
                   std::int64_t num_groups, Tensor& moments) {
  constexpr std::string_view kPlace = "group_norm";
  check_device(kPlace, ctx.device(), {&x, &moments});
  check_rank(kPlace, "x", x, 2);
  check_groups(kPlace, ctx, x, num_groups);
  check_moments(kPlace, ctx, x.dim(0), pixels, num_groups, moments);
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::group_moments(ctx, x, num_groups, moments);
    case DeviceKind::cuda:
      return cuda::group_moments(ctx, x, pixels, num_groups, moments);
    case DeviceKind::meter:
      return;
  }
}

void group_normalise(ExecContext& ctx, const Tensor& x, const Tensor& moments,
                     std::int64_t pixels, const Tensor& weight,
                     const Tensor& bias, std::int64_t num_groups, float eps,
                     Activation activation, Tensor& out) {
  constexpr std::string_view kPlace = "group_norm";
  check_device(kPlace, ctx.device(), {&x, &moments, &weight, &bias, &out});
  check_rank(kPlace, "x", x, 2);
  check_scale_shift(kPlace, x, weight, bias, out);
  check_groups(kPlace, ctx, x, num_groups);
  check_moments(kPlace, ctx, pixels, pixels, num_groups, moments);
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::group_normalise(ctx, x, moments, pixels, weight, bias,
                                  num_groups, eps, activation, out);
    case DeviceKind::cuda:
      return cuda::group_normalise(ctx, x, moments, pixels, weight, bias,
                                   num_groups, eps, activation, out);
    case DeviceKind::meter:
      return;
  }
}

}  // namespace troupe::kernels

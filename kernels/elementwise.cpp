#include "kernels/elementwise.h"

#include <string>

#include "kernels/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cuda/ops.h"

namespace troupe::kernels {
namespace {

constexpr std::size_t kMaxTerms = 8;

/// f32 and bf16, and what only a GPU computes with.
void check_number(ExecContext& ctx, std::string_view place,
                  std::string_view what, const Tensor& x) {
  if (ctx.kind() == DeviceKind::cuda) {
    check_dtype(place, what, x, {DType::f32, DType::bf16, DType::f16});
  } else {
    check_dtype(place, what, x, {DType::f32, DType::bf16});
  }
}

}  // namespace

void add_gated(ExecContext& ctx, const Tensor& modulation,
               std::int64_t gate_column, const Tensor& y, Tensor& x) {
  check_device("add_gated", ctx.device(), {&modulation, &y, &x});
  check_rank("add_gated", "x", x, 3);
  check_dtype("add_gated", "x", x, {DType::f32});
  check_shape("add_gated", "y", y.shape(), x.shape());
  check_number(ctx, "add_gated", "y", y);
  check_rank("add_gated", "modulation", modulation, 2);
  check_dtype("add_gated", "modulation", modulation, {DType::f32});
  check_shape("add_gated", "modulation", modulation.shape(),
              {x.dim(0), modulation.dim(1)});
  check_columns("add_gated", "the gate", gate_column, x.dim(2),
                modulation.dim(1));
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::add_gated(ctx, modulation, gate_column, y, x);
    case DeviceKind::cuda:
      return cuda::add_gated(ctx, modulation, gate_column, y, x);
    case DeviceKind::meter:
      return;
  }
}

void add(ExecContext& ctx, const Tensor& y, Tensor& x) {
  check_device("add", ctx.device(), {&y, &x});
  check_number(ctx, "add", "x", x);
  check_number(ctx, "add", "y", y);
  check_shape("add", "y", y.shape(), x.shape());
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::add(ctx, y, x);
    case DeviceKind::cuda:
      return cuda::add(ctx, y, x);
    case DeviceKind::meter:
      return;
  }
}

void add_channels(ExecContext& ctx, const Tensor& vectors, std::int64_t column,
                  Tensor& x) {
  check_device("add_channels", ctx.device(), {&vectors, &x});
  const std::size_t rank = x.shape().rank();
  if (rank < 2) {
    throw Error(Errc::shape_mismatch, "add_channels",
                "wrong rank of x: got " + to_string(x.shape()) +
                    ", expected at least 2 axes");
  }
  check_number(ctx, "add_channels", "x", x);
  check_rank("add_channels", "vectors", vectors, 2);
  check_dtype("add_channels", "vectors", vectors, {DType::f32});
  check_shape("add_channels", "vectors", vectors.shape(),
              {x.dim(0), vectors.dim(1)});
  check_columns("add_channels", "the vectors", column, x.dim(rank - 1),
                vectors.dim(1));
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::add_channels(ctx, vectors, column, x);
    case DeviceKind::cuda:
      return cuda::add_channels(ctx, vectors, column, x);
    case DeviceKind::meter:
      return;
  }
}

void convert(ExecContext& ctx, const Tensor& x, Tensor& out) {
  check_device("convert", ctx.device(), {&x, &out});
  check_dtype("convert", "x", x, {DType::f32, DType::bf16, DType::f16});
  if (ctx.device().kind == DeviceKind::cpu && x.dtype() == DType::f16) {
    check_dtype("convert", "out", out, {DType::f32});
  } else {
    check_number(ctx, "convert", "out", out);
  }
  check_shape("convert", "out", out.shape(), x.shape());
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::convert(ctx, x, out);
    case DeviceKind::cuda:
      return cuda::convert(ctx, x, out);
    case DeviceKind::meter:
      return;
  }
}

void combine(ExecContext& ctx, std::span<const Term> terms, Tensor& out) {
  if (terms.empty() || terms.size() > kMaxTerms) {
    throw Error(Errc::invalid_argument, "combine",
                "wrong number of terms: got " + std::to_string(terms.size()) +
                    ", expected 1 to " + std::to_string(kMaxTerms));
  }
  check_device("combine", ctx.device(), {&out});
  check_dtype("combine", "out", out, {DType::f32});
  for (const Term& term : terms) {
    check_device("combine", ctx.device(), {term.tensor});
    check_dtype("combine", "a term", *term.tensor, {DType::f32});
    check_shape("combine", "a term", term.tensor->shape(), out.shape());
  }
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::combine(terms, out);
    case DeviceKind::cuda:
      return cuda::combine(ctx, terms, out);
    case DeviceKind::meter:
      return;
  }
}

void clamp(ExecContext& ctx, double low, double high, Tensor& x) {
  check_device("clamp", ctx.device(), {&x});
  check_dtype("clamp", "x", x, {DType::f32});
  if (!(low <= high)) {
    throw Error(Errc::invalid_argument, "clamp",
                "empty range: got " + std::to_string(low) + " to " +
                    std::to_string(high));
  }
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::clamp(static_cast<float>(low), static_cast<float>(high), x);
    case DeviceKind::cuda:
      return cuda::clamp(ctx, static_cast<float>(low), static_cast<float>(high),
                         x);
    case DeviceKind::meter:
      return;
  }
}

void guide(ExecContext& ctx, const Tensor& cond, const Tensor& uncond,
           double scale, std::int64_t num_guided, Tensor& out) {
  check_device("guide", ctx.device(), {&cond, &uncond, &out});
  check_dtype("guide", "cond", cond, {DType::f32});
  check_dtype("guide", "uncond", uncond, {DType::f32});
  check_dtype("guide", "out", out, {DType::f32});
  check_shape("guide", "uncond", uncond.shape(), cond.shape());
  check_shape("guide", "out", out.shape(), cond.shape());
  if (cond.shape().rank() < 1 || num_guided < 0 || num_guided > cond.dim(0)) {
    throw Error(Errc::invalid_argument, "guide",
                "guided items: got " + std::to_string(num_guided) + " of " +
                    to_string(cond.shape()));
  }
  if (out.empty()) {
    return;
  }
  const auto factor = static_cast<float>(scale);
  const std::int64_t elements = out.num_elements() / out.dim(0) * num_guided;
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::guide(cond, uncond, factor, elements, out);
    case DeviceKind::cuda:
      return cuda::guide(ctx, cond, uncond, factor, elements, out);
    case DeviceKind::meter:
      return;
  }
}

void rescale_deviation(ExecContext& ctx, const Tensor& like, double share,
                       Tensor& x) {
  constexpr const char* kPlace = "rescale_deviation";
  check_device(kPlace, ctx.device(), {&like, &x});
  check_dtype(kPlace, "the tensor to be like", like, {DType::f32});
  check_dtype(kPlace, "x", x, {DType::f32});
  check_shape(kPlace, "x", x.shape(), like.shape());
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::rescale_deviation(like, share, x);
    case DeviceKind::cuda:
      return cuda::rescale_deviation(ctx, like, share, x);
    case DeviceKind::meter:
      return;
  }
}

void scale_by_learned_variance(ExecContext& ctx, const Tensor& variance,
                               bool is_range, double log_low, double log_high,
                               Tensor& noise) {
  constexpr const char* kPlace = "scale_by_learned_variance";
  check_device(kPlace, ctx.device(), {&variance, &noise});
  check_dtype(kPlace, "the variance", variance, {DType::f32});
  check_dtype(kPlace, "the noise", noise, {DType::f32});
  check_shape(kPlace, "the variance", variance.shape(), noise.shape());
  const auto low = static_cast<float>(log_low);
  const auto high = static_cast<float>(log_high);
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::scale_by_learned_variance(variance, is_range, low, high,
                                            noise);
    case DeviceKind::cuda:
      return cuda::scale_by_learned_variance(ctx, variance, is_range, low, high,
                                             noise);
    case DeviceKind::meter:
      return;
  }
}

}  // namespace troupe::kernels

#include "kernels/elementwise.h"

#include <cmath>

#include "kernels/check.h"
#include "kernels/cpu/elementwise.h"

namespace troupe::kernels {
namespace {

constexpr std::size_t kMaxTerms = 8;

/// For ops without a context: they run where their operand lives.
void check_on_cpu(std::string_view place, const Tensor& x) {
  if (x.device().kind != DeviceKind::cpu) {
    throw_no_backend(place, x.device());
  }
}

}  // namespace

void add_gated(ExecContext& ctx, const Tensor& modulation,
               std::int64_t gate_column, const Tensor& y, Tensor& x) {
  check_device("add_gated", ctx.device(), {&modulation, &y, &x});
  check_rank("add_gated", "x", x, 3);
  check_dtype("add_gated", "x", x, {DType::f32});
  check_shape("add_gated", "y", y.shape(), x.shape());
  check_dtype("add_gated", "y", y, {DType::f32, DType::bf16});
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
      break;
  }
  throw_no_backend("add_gated", ctx.device());
}

void add(ExecContext& ctx, const Tensor& y, Tensor& x) {
  check_device("add", ctx.device(), {&y, &x});
  check_dtype("add", "x", x, {DType::f32, DType::bf16});
  check_dtype("add", "y", y, {DType::f32, DType::bf16});
  check_shape("add", "y", y.shape(), x.shape());
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::add(ctx, y, x);
    case DeviceKind::cuda:
      break;
  }
  throw_no_backend("add", ctx.device());
}

void convert(ExecContext& ctx, const Tensor& x, Tensor& out) {
  check_device("convert", ctx.device(), {&x, &out});
  check_dtype("convert", "x", x, {DType::f32, DType::bf16, DType::f16});
  if (x.dtype() == DType::f16) {
    check_dtype("convert", "out", out, {DType::f32});
  } else {
    check_dtype("convert", "out", out, {DType::f32, DType::bf16});
  }
  check_shape("convert", "out", out.shape(), x.shape());
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::convert(ctx, x, out);
    case DeviceKind::cuda:
      break;
  }
  throw_no_backend("convert", ctx.device());
}

void combine(std::span<const Term> terms, Tensor& out) {
  check_on_cpu("combine", out);
  if (terms.empty() || terms.size() > kMaxTerms) {
    throw Error(Errc::invalid_argument, "combine",
                "wrong number of terms: got " + std::to_string(terms.size()) +
                    ", expected 1 to " + std::to_string(kMaxTerms));
  }
  check_dtype("combine", "out", out, {DType::f32});
  for (const Term& term : terms) {
    check_device("combine", out.device(), {term.tensor});
    check_dtype("combine", "a term", *term.tensor, {DType::f32});
    check_shape("combine", "a term", term.tensor->shape(), out.shape());
  }
  cpu::combine(terms, out);
}

void clamp(double low, double high, Tensor& x) {
  check_on_cpu("clamp", x);
  check_dtype("clamp", "x", x, {DType::f32});
  if (!(low <= high)) {
    throw Error(Errc::invalid_argument, "clamp",
                "empty range: got " + std::to_string(low) + " to " +
                    std::to_string(high));
  }
  if (!x.empty()) {
    cpu::clamp(static_cast<float>(low), static_cast<float>(high), x);
  }
}

double sum_squared_difference(const Tensor& a, const Tensor& b) {
  check_on_cpu("sum_squared_difference", a);
  check_device("sum_squared_difference", a.device(), {&b});
  check_dtype("sum_squared_difference", "a", a, {DType::f32});
  check_dtype("sum_squared_difference", "b", b, {DType::f32});
  check_shape("sum_squared_difference", "b", b.shape(), a.shape());
  return cpu::sum_squared_difference(a, b);
}

double sum_squares(const Tensor& a) {
  check_on_cpu("sum_squares", a);
  check_dtype("sum_squares", "a", a, {DType::f32});
  return cpu::sum_squares(a);
}

bool all_finite(const Tensor& x) {
  check_on_cpu("all_finite", x);
  check_dtype("all_finite", "x", x, {DType::f32});
  return cpu::all_finite(x);
}

}  // namespace troupe::kernels

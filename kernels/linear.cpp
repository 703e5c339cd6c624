#include "kernels/linear.h"

#include <utility>

#include "kernels/check.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/rows.h"

namespace troupe::kernels {
namespace {

void check_linear(ExecContext& ctx, const Tensor& x, const PackedLinear& packed,
                  const Tensor& out) {
  check_device("linear", ctx.device(), {&x, &out});
  if (packed.impl() == nullptr) {
    throw Error(Errc::invalid_argument, "linear", "the weights are empty");
  }
  check_rank("linear", "x", x, 3);
  check_dtype("linear", "x", x, {packed.compute()});
  check_shape("linear", "x", x.shape(),
              {x.dim(0), x.dim(1), packed.in_features()});
  check_shape("linear", "out", out.shape(),
              {x.dim(0), x.dim(1), packed.out_features()});
}

}  // namespace

PackedLinear::PackedLinear() = default;
PackedLinear::~PackedLinear() = default;
PackedLinear::PackedLinear(PackedLinear&&) noexcept = default;
PackedLinear& PackedLinear::operator=(PackedLinear&&) noexcept = default;

PackedLinear::PackedLinear(ExecContext& ctx, const Tensor& weight,
                           const Tensor& bias, DType compute) {
  check_rank("linear", "weight", weight, 2);
  check_dtype("linear", "weight", weight,
              {DType::f32, DType::bf16, DType::f16});
  if (weight.dim(0) < 1 || weight.dim(1) < 1) {
    throw Error(Errc::shape_mismatch, "linear",
                "empty weights: got " + to_string(weight.shape()) +
                    ", expected at least [1, 1]");
  }
  if (!bias.empty()) {
    check_shape("linear", "bias", bias.shape(), {weight.dim(0)});
    check_dtype("linear", "bias", bias, {DType::f32, DType::bf16, DType::f16});
  }
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      if (!supports(compute)) {
        throw Error(Errc::unsupported, "linear",
                    "this CPU cannot multiply " +
                        std::string(to_string(compute)) + " matrices",
                    "use --dtype f32");
      }
      impl_ = std::make_unique<Impl>(
          Impl{cpu::pack_linear(ctx, weight, bias, compute)});
      return;
    case DeviceKind::cuda:
      break;
  }
  throw_no_backend("linear", ctx.device());
}

std::int64_t PackedLinear::in_features() const {
  return impl_ ? impl_->visit([](const auto& w) { return w.columns(); }) : 0;
}

std::int64_t PackedLinear::out_features() const {
  return impl_ ? impl_->visit([](const auto& w) { return w.rows(); }) : 0;
}

DType PackedLinear::compute() const {
  return impl_ ? impl_->visit([](const auto& w) { return w.compute(); })
               : DType::f32;
}

std::size_t PackedLinear::num_bytes() const {
  return impl_ ? impl_->visit([](const auto& w) { return w.num_bytes(); }) : 0;
}

bool supports(DType compute) { return cpu::can_multiply(compute); }

const char* cpu_isa() { return cpu::isa_name(); }

const char* vector_isa() { return cpu::vector_isa(); }

std::string matrix_library_version() { return cpu::matrix_library_version(); }

void linear(ExecContext& ctx, const Tensor& x, const PackedLinear& packed,
            Activation activation, Tensor& out) {
  check_linear(ctx, x, packed, out);
  check_dtype("linear", "out", out, {DType::f32, packed.compute()});
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::linear(ctx, x, packed.impl()->weights,
                         {.activation = activation}, out);
    case DeviceKind::cuda:
      break;
  }
  throw_no_backend("linear", ctx.device());
}

void linear_add_gated(ExecContext& ctx, const Tensor& x,
                      const PackedLinear& packed, const Tensor& modulation,
                      std::int64_t gate_column, Tensor& residual) {
  check_linear(ctx, x, packed, residual);
  check_device("linear", ctx.device(), {&modulation});
  check_dtype("linear", "residual", residual, {DType::f32});
  check_dtype("linear", "modulation", modulation, {DType::f32});
  check_rank("linear", "modulation", modulation, 2);
  check_shape("linear", "modulation", modulation.shape(),
              {x.dim(0), modulation.dim(1)});
  check_columns("linear", "the gate", gate_column, packed.out_features(),
                modulation.dim(1));
  if (residual.empty()) {
    return;
  }
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::linear(ctx, x, packed.impl()->weights,
                         {.gate = modulation.data<float>() + gate_column,
                          .gate_stride = modulation.dim(1)},
                         residual);
    case DeviceKind::cuda:
      break;
  }
  throw_no_backend("linear", ctx.device());
}

}  // namespace troupe::kernels

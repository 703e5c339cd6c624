#include "kernels/linear.h"

#include <string>
#include <utility>
#include <variant>

#include "kernels/check.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/rows.h"
#include "kernels/cuda/ops.h"

namespace troupe::kernels {
namespace {

/// Of a meter.
struct MeteredLinear {
  std::size_t num_bytes = 0;
};

}  // namespace

/// Weights in the layout of the device that packed them.
struct PackedLinear::Impl {
  std::variant<cpu::LinearWeights, cuda::LinearWeights, MeteredLinear> weights;
  std::int64_t in_features;
  std::int64_t out_features;
  DType compute;
  std::size_t num_bytes;
};

namespace {

std::size_t bytes_of(const cpu::LinearWeights& weights) {
  return std::visit([](const auto& matrix) { return matrix.num_bytes(); },
                    weights);
}

std::size_t bytes_of(const cuda::LinearWeights& weights) {
  const bool is_shared = weights.narrow_bias.owner() == weights.bias.owner();
  return weights.weight.num_bytes() + weights.bias.num_bytes() +
         (is_shared ? 0 : weights.narrow_bias.num_bytes());
}

std::size_t bytes_of(const MeteredLinear& weights) { return weights.num_bytes; }

MeteredLinear meter_weights(const Tensor& weight, const Tensor& bias,
                            DType compute) {
  return {static_cast<std::size_t>(weight.num_elements()) * size_of(compute) +
          static_cast<std::size_t>(bias.num_elements()) * sizeof(float)};
}

/// `product_apart`: whether a GPU makes the product in f32 first.
void meter_linear(ExecContext& ctx, const PackedLinear& packed,
                  bool product_apart, const Tensor& out) {
  ctx.meter().add_flops(2.0 * static_cast<double>(out.num_elements()) *
                        static_cast<double>(packed.in_features()));
  if (product_apart && ctx.kind() == DeviceKind::cuda) {
    const Workspace::Scope scope(ctx.workspace());
    (void)ctx.workspace().take(out.shape(), DType::f32);
  }
}

/// The weights if they are those of the device of ctx.
template <typename Weights>
const Weights& weights_for(ExecContext& ctx, const PackedLinear& packed) {
  const auto* weights = std::get_if<Weights>(&packed.impl()->weights);
  if (weights == nullptr) {
    throw Error(Errc::invalid_argument, "linear",
                "the weights were not packed for " + to_string(ctx.device()));
  }
  return *weights;
}

/// The weights with their matrix on the device, fetched if it is offloaded.
cuda::LinearWeights gpu_weights(ExecContext& ctx, const PackedLinear& packed) {
  auto weights = weights_for<cuda::LinearWeights>(ctx, packed);
  if (weights.weight.device().kind == DeviceKind::cpu) {
    weights.weight = cuda::fetched_weight(ctx, weights.weight);
  }
  check_device("linear", ctx.device(), {&weights.weight});
  return weights;
}

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
  if (!supports(ctx, compute)) {
    throw Error(
        Errc::unsupported, "linear",
        (ctx.device().kind == DeviceKind::cpu ? "this CPU cannot multiply "
                                              : "this GPU cannot multiply ") +
            std::string(to_string(compute)) + " matrices",
        "use --dtype f32");
  }
  const auto keep = [&](auto weights) {
    const std::size_t num_bytes = bytes_of(weights);
    impl_ = std::make_unique<Impl>(Impl{std::move(weights), weight.dim(1),
                                        weight.dim(0), compute, num_bytes});
  };
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      keep(cpu::pack_linear(ctx, weight, bias, compute));
      break;
    case DeviceKind::cuda:
      keep(cuda::pack_linear(ctx, weight, bias, compute));
      break;
    case DeviceKind::meter:
      keep(meter_weights(weight, bias, compute));
      break;
  }
}

std::int64_t PackedLinear::in_features() const {
  return impl_ ? impl_->in_features : 0;
}

std::int64_t PackedLinear::out_features() const {
  return impl_ ? impl_->out_features : 0;
}

DType PackedLinear::compute() const {
  return impl_ ? impl_->compute : DType::f32;
}

std::size_t PackedLinear::num_bytes() const {
  return impl_ ? impl_->num_bytes : 0;
}

Tensor PackedLinear::device_weight() const {
  const auto* weights =
      impl_ ? std::get_if<cuda::LinearWeights>(&impl_->weights) : nullptr;
  return weights != nullptr ? weights->weight : Tensor();
}

void PackedLinear::set_device_weight(const Tensor& weight) {
  auto& weights = std::get<cuda::LinearWeights>(impl_->weights);
  check_shape("linear", "weight", weight.shape(), weights.weight.shape());
  check_dtype("linear", "weight", weight, {weights.weight.dtype()});
  weights.weight = weight;
}

bool supports(DType compute) { return cpu::can_multiply(compute); }

bool supports(ExecContext& ctx, DType compute) {
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::can_multiply(compute);
    case DeviceKind::cuda:
      return cuda::can_multiply(ctx, compute);
    case DeviceKind::meter:
      return true;
  }
  return false;
}

std::string matrix_library_version() { return cpu::matrix_library_version(); }

void linear(ExecContext& ctx, const Tensor& x, const PackedLinear& packed,
            Activation activation, Tensor& out, const WholeItem& whole) {
  check_linear(ctx, x, packed, out);
  const std::int64_t whole_rows =
      check_whole("linear", "rows", x.dim(1), whole.rows);
  check_dtype("linear", "out", out, {DType::f32, packed.compute()});
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::linear(ctx, x, weights_for<cpu::LinearWeights>(ctx, packed),
                         {.activation = activation}, out);
    case DeviceKind::cuda:
      return cuda::linear(ctx, x, gpu_weights(ctx, packed), activation,
                          whole_rows, out);
    case DeviceKind::meter:
      return meter_linear(ctx, packed,
                          out.dtype() != DType::f32 &&
                              activation != Activation::none &&
                              activation != Activation::gelu_tanh,
                          out);
  }
}

namespace {

/// `modulation` is checked already, or empty: no gate.
void add_product(ExecContext& ctx, const Tensor& x, const PackedLinear& packed,
                 const Tensor& modulation, std::int64_t gate_column,
                 Tensor& residual, const WholeItem& whole) {
  check_linear(ctx, x, packed, residual);
  const std::int64_t whole_rows =
      check_whole("linear", "rows", x.dim(1), whole.rows);
  check_dtype("linear", "residual", residual, {DType::f32});
  if (residual.empty()) {
    return;
  }
  const bool is_gated = !modulation.empty();
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::linear(
          ctx, x, weights_for<cpu::LinearWeights>(ctx, packed),
          {.adds = true,
           .gate = is_gated ? modulation.data<float>() + gate_column : nullptr,
           .gate_stride = is_gated ? modulation.dim(1) : 0},
          residual);
    case DeviceKind::cuda:
      return cuda::linear_add(ctx, x, gpu_weights(ctx, packed), modulation,
                              gate_column, whole_rows, residual);
    case DeviceKind::meter:
      return meter_linear(ctx, packed, true, residual);
  }
}

}  // namespace

void linear_add(ExecContext& ctx, const Tensor& x, const PackedLinear& packed,
                Tensor& residual, const WholeItem& whole) {
  add_product(ctx, x, packed, {}, 0, residual, whole);
}

void linear_add_gated(ExecContext& ctx, const Tensor& x,
                      const PackedLinear& packed, const Tensor& modulation,
                      std::int64_t gate_column, Tensor& residual,
                      const WholeItem& whole) {
  check_rank("linear", "x", x, 3);
  check_device("linear", ctx.device(), {&modulation});
  check_dtype("linear", "modulation", modulation, {DType::f32});
  check_rank("linear", "modulation", modulation, 2);
  check_shape("linear", "modulation", modulation.shape(),
              {x.dim(0), modulation.dim(1)});
  check_columns("linear", "the gate", gate_column, packed.out_features(),
                modulation.dim(1));
  add_product(ctx, x, packed, modulation, gate_column, residual, whole);
}

}  // namespace troupe::kernels

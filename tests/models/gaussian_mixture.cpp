#include "tests/models/gaussian_mixture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/noise.h"

namespace troupe::models {
namespace {

class MixtureCondition final : public PreparedCondition {
 public:
  explicit MixtureCondition(std::int64_t label) : class_label(label) {}
  const std::int64_t class_label;
};

/// x = a·x₀ + b·ε.
struct Coefficients {
  double a;
  double b;
};

Coefficients coefficients_at(const MixtureConfig& config, double timestep) {
  if (config.path == MixturePath::flow) {
    const double sigma = std::clamp(timestep / 1000.0, 0.0, 1.0);
    return {1.0 - sigma, sigma};
  }
  const auto& table = config.alphas_cumprod;
  const double last = static_cast<double>(table.size()) - 1.0;
  const double at = std::clamp(timestep, 0.0, last);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, table.size() - 1);
  const double fraction = at - static_cast<double>(below);
  const double alpha_cumprod =
      table[below] + fraction * (table[above] - table[below]);
  return {std::sqrt(alpha_cumprod), std::sqrt(1.0 - alpha_cumprod)};
}

std::uint64_t hash_of(const MixtureConfig& config) {
  Xxh3Stream hash;
  const auto add = [&hash](const auto& value) {
    hash.update(std::as_bytes(std::span(&value, 1)));
  };
  add(config.path);
  add(config.num_classes);
  for (const double alpha_cumprod : config.alphas_cumprod) {
    add(alpha_cumprod);
  }
  for (const MixtureComponent& component : config.components) {
    add(component.class_label);
    add(component.weight);
    add(component.deviation);
    hash.update(component.mean.bytes());
  }
  return hash.digest();
}

void check_config(const MixtureConfig& config) {
  constexpr std::string_view kPlace = "mixture";
  require(config.latent_shape.rank() > 0, Errc::shape_mismatch, kPlace,
          "latent shape: expected [C, H, W]");
  require(!config.components.empty(), Errc::invalid_argument, kPlace,
          "expected at least one component");
  require(
      config.num_blocks >= 1 && static_cast<std::size_t>(config.num_blocks) <=
                                    config.components.size(),
      Errc::invalid_argument, kPlace,
      "blocks: got " + std::to_string(config.num_blocks) + ", expected 1 to " +
          std::to_string(config.components.size()));
  require(config.path == MixturePath::flow || !config.alphas_cumprod.empty(),
          Errc::invalid_argument, kPlace, "expected alphas_cumprod");
  for (const MixtureComponent& component : config.components) {
    require(component.mean.shape() == config.latent_shape &&
                component.mean.dtype() == DType::f32,
            Errc::shape_mismatch, kPlace,
            "mean: got " + to_string(component.mean.shape()) + ", expected " +
                to_string(config.latent_shape) + " of f32");
    require(component.weight > 0.0 && component.deviation > 0.0 &&
                component.class_label >= 0 &&
                component.class_label <
                    std::max<std::int64_t>(1, config.num_classes),
            Errc::invalid_argument, kPlace,
            "component: expected a positive weight and deviation and a class "
            "below num_classes");
  }
}

double squared_distance(const Tensor& x, double a, const Tensor& mean) {
  const float* values = x.data<float>();
  const float* means = mean.data<float>();
  double sum = 0.0;
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    const double difference = values[i] - a * means[i];
    sum += difference * difference;
  }
  return sum;
}

void copy_bytes(const Tensor& from, Tensor& to) {
  std::memcpy(to.bytes().data(), from.bytes().data(), from.num_bytes());
}

void check_tensor(const Tensor& tensor, const Shape& shape) {
  if (tensor.shape() != shape || tensor.dtype() != DType::f32) {
    throw Error(Errc::shape_mismatch, "mixture",
                "got " + to_string(tensor.shape()) + ", expected " +
                    to_string(shape) + " of f32");
  }
}

}  // namespace

struct GaussianMixture::Row {
  Tensor latents;  ///< [C, H, W]
  Tensor sum;      ///< [C, H, W] Σ w · value, relative to the largest weight
  Tensor state;    ///< [2] bits of (largest log weight, Σ w)

  [[nodiscard]] double get(int index) const {
    return std::bit_cast<double>(state.data<std::int64_t>()[index]);
  }
  void set(int index, double value) {
    state.data<std::int64_t>()[index] = std::bit_cast<std::int64_t>(value);
  }
  void reset() {
    std::fill_n(sum.data<float>(), sum.num_elements(), 0.0F);
    set(0, -std::numeric_limits<double>::infinity());
    set(1, 0.0);
  }
};

GaussianMixture::GaussianMixture(MixtureConfig config)
    : config_(std::move(config)) {
  check_config(config_);
  const auto elements =
      static_cast<double>(config_.latent_shape.num_elements());
  const double share = static_cast<double>(config_.components.size()) /
                       static_cast<double>(config_.num_blocks);
  const BlockInfo block{
      .flops = 8.0 * elements * share,
      .parameter_bytes = static_cast<std::size_t>(elements * 4.0 * share),
      // Latents, sum and state.
      .hidden_bytes = 2 * static_cast<std::size_t>(elements) * sizeof(float) +
                      2 * sizeof(std::int64_t)};
  info_.class_name = "GaussianMixture";
  info_.latent_shape = config_.latent_shape;
  info_.out_channels = config_.latent_shape[0];
  info_.guided_channels = config_.latent_shape[0];
  info_.num_classes = config_.num_classes;
  info_.blocks.assign(static_cast<std::size_t>(config_.num_blocks), block);
  info_.finish_flops = elements;
  info_.parameter_bytes = block.parameter_bytes * info_.blocks.size();
  info_.weights_hash = hash_of(config_);
}

PreparedPtr GaussianMixture::prepare(ExecContext& ctx,
                                     const Condition& condition,
                                     std::span<const double> /*ts*/) const {
  require(ctx.device().kind == DeviceKind::cpu, Errc::unsupported, "mixture",
          "runs on the CPU only: got " + to_string(ctx.device()),
          "use --device cpu");
  return std::make_shared<const MixtureCondition>(
      checked_class_label(condition, config_.num_classes));
}

// w_k ∝ weight_k · N(x; aμ_k, v_k), v_k = a²s_k² + b²; given component k,
// E[ε] = b (x − aμ) / v and E[x₀] = μ + a s² (x − aμ) / v.
void GaussianMixture::run_row(ExecContext& ctx, double timestep,
                              const PreparedCondition* condition, int begin,
                              int end, Row& row) const {
  const auto* prepared = dynamic_cast<const MixtureCondition*>(condition);
  require(prepared != nullptr, Errc::invalid_argument, "mixture",
          "the condition was not prepared by a mixture");
  const auto [a, b] = coefficients_at(config_, timestep);
  const auto count = static_cast<int>(config_.components.size());
  const std::int64_t elements = row.latents.num_elements();
  for (int block = begin; block < end; ++block) {
    const int first = block * count / config_.num_blocks;
    const int last = (block + 1) * count / config_.num_blocks;
    for (int k = first; k < last; ++k) {
      const auto& component = config_.components[static_cast<std::size_t>(k)];
      if (prepared->class_label != config_.num_classes &&
          prepared->class_label != component.class_label) {
        continue;
      }
      const double s2 = component.deviation * component.deviation;
      const double v = a * a * s2 + b * b;
      const double log_weight =
          std::log(component.weight) -
          0.5 * static_cast<double>(elements) * std::log(v) -
          0.5 * squared_distance(row.latents, a, component.mean) / v;
      const double largest = std::max(row.get(0), log_weight);
      const double keep = std::exp(row.get(0) - largest);
      const double weight = std::exp(log_weight - largest);
      row.set(1, row.get(1) * keep + weight);
      row.set(0, largest);
      const bool flow = config_.path == MixturePath::flow;
      const double slope = flow ? (b - a * s2) / v : b / v;
      const double offset = flow ? -1.0 : 0.0;
      const float* x = row.latents.data<float>();
      const float* mean = component.mean.data<float>();
      float* sum = row.sum.data<float>();
      for (std::int64_t i = 0; i < elements; ++i) {
        const double value = slope * (x[i] - a * mean[i]) + offset * mean[i];
        sum[i] = static_cast<float>(sum[i] * keep + weight * value);
      }
    }
    ctx.tick();
  }
}

void GaussianMixture::predict(ExecContext& ctx, ShardContext& /*shard*/,
                              const Batch& batch,
                              std::span<Tensor> outputs) const {
  require(batch.latents.size() == outputs.size() &&
              batch.timesteps.size() == outputs.size() &&
              batch.conditions.size() == outputs.size(),
          Errc::shape_mismatch, "mixture", "rows differ in number");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_tensor(batch.latents[i], config_.latent_shape);
    check_tensor(outputs[i], config_.latent_shape);
    const Workspace::Scope scope(ctx.workspace());
    Row row{batch.latents[i],
            ctx.workspace().take(config_.latent_shape, DType::f32),
            ctx.workspace().take({2}, DType::i64)};
    row.reset();
    run_row(ctx, batch.timesteps[i], batch.conditions[i], 0, config_.num_blocks,
            row);
    const double total = row.get(1);
    for (std::int64_t k = 0; k < outputs[i].num_elements(); ++k) {
      outputs[i].data<float>()[k] =
          static_cast<float>(row.sum.data<float>()[k] / total);
    }
  }
}

void GaussianMixture::embed(ExecContext& /*ctx*/, ShardContext& /*shard*/,
                            const Batch& batch,
                            std::span<Boundary> boundaries) const {
  require(batch.latents.size() == boundaries.size(), Errc::shape_mismatch,
          "mixture", "rows differ in number");
  for (std::size_t i = 0; i < boundaries.size(); ++i) {
    check_tensor(batch.latents[i], config_.latent_shape);
    Boundary& boundary = boundaries[i];
    if (boundary.size() != 3 ||
        boundary[0].tensor.shape() != config_.latent_shape) {
      boundary = {{"latents", Tensor(config_.latent_shape, DType::f32)},
                  {"sum", Tensor(config_.latent_shape, DType::f32)},
                  {"state", Tensor({2}, DType::i64)}};
    }
    copy_bytes(batch.latents[i], boundary[0].tensor);
    Row{boundary[0].tensor, boundary[1].tensor, boundary[2].tensor}.reset();
  }
}

void GaussianMixture::run_blocks(ExecContext& ctx, ShardContext& /*shard*/,
                                 const Batch& batch, int begin, int end,
                                 std::span<Boundary> boundaries) const {
  require(batch.timesteps.size() == boundaries.size() &&
              batch.conditions.size() == boundaries.size(),
          Errc::shape_mismatch, "mixture", "rows differ in number");
  require(begin >= 0 && begin <= end && end <= config_.num_blocks,
          Errc::invalid_argument, "mixture",
          "blocks: got " + std::to_string(begin) + " to " +
              std::to_string(end) + ", expected a part of 0 to " +
              std::to_string(config_.num_blocks));
  for (std::size_t i = 0; i < boundaries.size(); ++i) {
    require(boundaries[i].size() == 3, Errc::shape_mismatch, "mixture",
            "boundary: expected three tensors");
    Row row{boundaries[i][0].tensor, boundaries[i][1].tensor,
            boundaries[i][2].tensor};
    run_row(ctx, batch.timesteps[i], batch.conditions[i], begin, end, row);
  }
}

void GaussianMixture::finish(ExecContext& /*ctx*/, ShardContext& /*shard*/,
                             const Batch& /*batch*/,
                             std::span<const Boundary> boundaries,
                             std::span<Tensor> outputs) const {
  require(boundaries.size() == outputs.size(), Errc::shape_mismatch, "mixture",
          "rows differ in number");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require(boundaries[i].size() == 3, Errc::shape_mismatch, "mixture",
            "boundary: expected three tensors");
    check_tensor(outputs[i], config_.latent_shape);
    const double total =
        std::bit_cast<double>(boundaries[i][2].tensor.data<std::int64_t>()[1]);
    const float* sum = boundaries[i][1].tensor.data<float>();
    for (std::int64_t k = 0; k < outputs[i].num_elements(); ++k) {
      outputs[i].data<float>()[k] = static_cast<float>(sum[k] / total);
    }
  }
}

MixtureConfig random_mixture(std::uint64_t seed, const Shape& latent_shape,
                             std::int64_t num_classes, int components_per_class,
                             int num_blocks) {
  MixtureConfig config;
  config.latent_shape = latent_shape;
  config.num_classes = num_classes;
  config.num_blocks = num_blocks;
  constexpr int kTimesteps = 1000;
  double alpha_cumprod = 1.0;
  for (int t = 0; t < kTimesteps; ++t) {
    alpha_cumprod *= 1.0 - (1e-4 + (0.02 - 1e-4) * t / (kTimesteps - 1));
    config.alphas_cumprod.push_back(alpha_cumprod);
  }
  const auto classes = static_cast<int>(std::max<std::int64_t>(1, num_classes));
  for (int k = 0; k < classes * components_per_class; ++k) {
    MixtureComponent component;
    component.class_label = k / components_per_class;
    component.weight = 1.0 + k % components_per_class;
    component.deviation = 0.1 + 0.05 * (k % 3);
    component.mean = Tensor(latent_shape, DType::f32);
    fill_normal({.seed = seed,
                 .sample_index = static_cast<std::uint64_t>(k),
                 .step_index = 0,
                 .purpose = NoisePurpose::weights},
                component.mean);
    config.components.push_back(std::move(component));
  }
  return config;
}

}  // namespace troupe::models

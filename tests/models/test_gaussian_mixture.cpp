#include <utility>

#include "tests/models/gaussian_mixture.h"
#include "tests/models/helpers.h"

namespace troupe::models {
namespace {

constexpr double kTimestep = 400.0;

Tensor ramp(const Shape& shape, double phase) {
  Tensor x(shape, DType::f32);
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    x.data<float>()[i] =
        static_cast<float>(std::cos(0.7 * static_cast<double>(i) + phase));
  }
  return x;
}

std::vector<Tensor> predict(const GaussianMixture& mixture,
                            const std::vector<Tensor>& latents,
                            const std::vector<double>& timesteps,
                            const std::vector<std::int64_t>& labels) {
  ExecContext ctx;
  ShardContext whole;
  std::vector<PreparedPtr> prepared;
  std::vector<const PreparedCondition*> conditions;
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < latents.size(); ++i) {
    prepared.push_back(mixture.prepare(ctx, {labels[i]}));
    conditions.push_back(prepared.back().get());
    outputs.emplace_back(mixture.info().latent_shape, DType::f32);
  }
  mixture.predict(ctx, whole, {latents, timesteps, conditions}, outputs);
  return outputs;
}

TEST(GaussianMixture, OneComponentIsTheLinearDenoiser) {
  MixtureConfig config = random_mixture(1, {2, 3, 3}, 1, 1, 1);
  const Tensor mean = config.components[0].mean;
  const double s2 = std::pow(config.components[0].deviation, 2);
  const double a2 = config.alphas_cumprod[400];
  const GaussianMixture mixture(std::move(config));
  const Tensor x = ramp({2, 3, 3}, 0.0);
  const Tensor eps = predict(mixture, {x}, {kTimestep}, {0})[0];
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    const double expected =
        std::sqrt(1 - a2) *
        (x.data<float>()[i] - std::sqrt(a2) * mean.data<float>()[i]) /
        (a2 * s2 + 1 - a2);
    EXPECT_NEAR(eps.data<float>()[i], expected, 1e-6);
  }
}

/// log p(x) of the noised mixture of all classes.
double log_density(const MixtureConfig& config, const Tensor& x, double a2) {
  std::vector<double> terms;
  for (const MixtureComponent& component : config.components) {
    const double v = a2 * component.deviation * component.deviation + 1 - a2;
    double distance = 0;
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      distance += std::pow(
          x.data<float>()[i] - std::sqrt(a2) * component.mean.data<float>()[i],
          2);
    }
    terms.push_back(std::log(component.weight) - distance / (2 * v) -
                    0.5 * static_cast<double>(x.num_elements()) * std::log(v));
  }
  const double most = *std::max_element(terms.begin(), terms.end());
  double sum = 0;
  for (const double term : terms) {
    sum += std::exp(term - most);
  }
  return most + std::log(sum);
}

// Tweedie: E[ε | x] = −√(1−ᾱ) ∇ log p(x).
TEST(GaussianMixture, NoiseIsTheScoreOfTheNoisedDensity) {
  const MixtureConfig config = random_mixture(2, {1, 2, 3}, 3, 2, 4);
  const double a2 = config.alphas_cumprod[400];
  const GaussianMixture mixture(config);
  const Tensor x = ramp({1, 2, 3}, 0.3);
  const Tensor eps = predict(mixture, {x}, {kTimestep}, {3})[0];
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    Tensor above = x.clone();
    Tensor below = x.clone();
    above.data<float>()[i] += 0.01F;
    below.data<float>()[i] -= 0.01F;
    const double width =
        static_cast<double>(above.data<float>()[i]) - below.data<float>()[i];
    const double slope =
        (log_density(config, above, a2) - log_density(config, below, a2)) /
        width;
    EXPECT_NEAR(eps.data<float>()[i], -std::sqrt(1 - a2) * slope, 1e-4);
  }
}

TEST(GaussianMixture, FlowVelocityIsNoiseMinusData) {
  MixtureConfig config = random_mixture(3, {1, 2, 2}, 0, 1, 1);
  config.path = MixturePath::flow;
  config.alphas_cumprod.clear();
  const Tensor mean = config.components[0].mean;
  const GaussianMixture mixture(config);
  // At σ = 1 the latents are pure noise: ε = x, and x₀ is the mean.
  const Tensor x = ramp({1, 2, 2}, 0.0);
  const Tensor v = predict(mixture, {x}, {1000.0}, {0})[0];
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(v.data<float>()[i], x.data<float>()[i] - mean.data<float>()[i],
                1e-6);
  }
}

TEST(GaussianMixture, CutAnywhereGivesTheSameBits) {
  const GaussianMixture mixture(random_mixture(4, {3, 4, 4}, 2, 5, 7));
  ExecContext ctx;
  ShardContext whole;
  const std::vector<Tensor> latents = {ramp({3, 4, 4}, 0.1),
                                       ramp({3, 4, 4}, 0.9)};
  const std::vector<double> timesteps = {999.0, 12.5};
  const auto expected = predict(mixture, latents, timesteps, {2, 1});
  const auto all = mixture.prepare(ctx, {2});
  const auto one = mixture.prepare(ctx, {1});
  const std::vector<const PreparedCondition*> conditions = {all.get(),
                                                            one.get()};
  const Batch batch{latents, timesteps, conditions};
  for (int cut = 0; cut <= 7; ++cut) {
    std::vector<Boundary> boundaries(2);
    std::vector<Tensor> outputs = {Tensor({3, 4, 4}, DType::f32),
                                   Tensor({3, 4, 4}, DType::f32)};
    mixture.embed(ctx, whole, batch, boundaries);
    EXPECT_EQ(bytes_of(boundaries[0]), mixture.info().boundary_bytes());
    mixture.run_blocks(ctx, whole, batch, 0, cut, boundaries);
    mixture.run_blocks(ctx, whole, batch, cut, 7, boundaries);
    mixture.finish(ctx, whole, batch, boundaries, outputs);
    EXPECT_TRUE(bytes_equal(outputs[0], expected[0])) << cut;
    EXPECT_TRUE(bytes_equal(outputs[1], expected[1])) << cut;
  }
}

TEST(GaussianMixture, FarFromEveryMeanStaysFinite) {
  const GaussianMixture mixture(random_mixture(5, {3, 8, 8}, 2, 2, 1));
  Tensor x({3, 8, 8}, DType::f32);
  std::fill_n(x.data<float>(), x.num_elements(), 1e4F);
  const std::vector<Tensor> outputs = predict(mixture, {x}, {0.0}, {2});
  for (const float value : outputs[0].span<float>()) {
    EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(GaussianMixture, RefusesWhatCannotBe) {
  const auto broken = [](auto change) {
    MixtureConfig config = random_mixture(6, {1, 2, 2}, 2, 1, 1);
    change(config);
    return error_of([&] { GaussianMixture mixture(config); }).code();
  };
  EXPECT_EQ(broken([](auto& c) { c.num_blocks = 3; }), Errc::invalid_argument);
  EXPECT_EQ(broken([](auto& c) { c.components.clear(); }),
            Errc::invalid_argument);
  EXPECT_EQ(broken([](auto& c) { c.components[0].deviation = 0.0; }),
            Errc::invalid_argument);
  EXPECT_EQ(broken([](auto& c) { c.components[0].class_label = 2; }),
            Errc::invalid_argument);
  EXPECT_EQ(broken([](auto& c) {
              c.components[0].mean = Tensor::zeros({1, 2, 3}, DType::f32);
            }),
            Errc::shape_mismatch);
}

}  // namespace
}  // namespace troupe::models

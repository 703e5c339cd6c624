#pragma once

#include <cstdint>
#include <vector>

#include "models/network/denoiser.h"
#include "models/network/segment.h"

namespace troupe::models {

/// One component N(mean, deviation² · I) of a class's distribution.
struct MixtureComponent {
  std::int64_t class_label = 0;
  double weight = 1.0;
  double deviation = 0.1;
  Tensor mean;  ///< [C, …] f32
};

/// How noise is added to latents, and what the denoiser predicts.
enum class MixturePath : std::uint8_t {
  /// x = √ᾱ x₀ + √(1−ᾱ) ε; predicts ε. Between two timesteps of the table ᾱ is
  /// interpolated linearly.
  variance_preserving,
  /// x = (1−σ) x₀ + σ ε with σ = t / 1000; predicts the velocity ε − x₀.
  flow
};

struct MixtureConfig {
  Shape latent_shape;            ///< [C, …]
  std::int64_t num_classes = 0;  ///< this number as a label means: all classes
  MixturePath path = MixturePath::variance_preserving;
  std::vector<double> alphas_cumprod;  ///< by timestep; not used by `flow`
  std::vector<MixtureComponent> components;
  /// Blocks that share the sum over components; at most one per component.
  int num_blocks = 1;
};

/// The exact denoiser of a mixture of Gaussians, E[ε | x] or E[ε − x₀ | x] in
/// closed form: samplers can be tested against the truth without a network.
///
/// Block j adds its components to a running, rescaled sum. The order of the
/// components is fixed, so cutting into segments never changes a bit.
/// Boundary: "latents" and "sum" [C, …] f32, "state" [2] i64 (the bits of two
/// doubles: largest log weight, sum of weights relative to it).
class GaussianMixture final : public Denoiser {
 public:
  /// Errors: Errc::invalid_argument, Errc::shape_mismatch.
  explicit GaussianMixture(MixtureConfig config);

  [[nodiscard]] const MixtureConfig& config() const noexcept { return config_; }
  [[nodiscard]] const DenoiserInfo& info() const override { return info_; }
  [[nodiscard]] PreparedPtr prepare(
      ExecContext& ctx, const Condition& condition,
      std::span<const double> timesteps = {}) const override;
  void predict(ExecContext& ctx, ShardContext& shard, const Batch& batch,
               std::span<Tensor> outputs) const override;
  void embed(ExecContext& ctx, ShardContext& shard, const Batch& batch,
             std::span<Boundary> boundaries) const override;
  void run_blocks(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                  int begin, int end,
                  std::span<Boundary> boundaries) const override;
  void finish(ExecContext& ctx, ShardContext& shard, const Batch& batch,
              std::span<const Boundary> boundaries,
              std::span<Tensor> outputs) const override;

 private:
  struct Row;

  void run_row(ExecContext& ctx, double timestep,
               const PreparedCondition* condition, int begin, int end,
               Row& row) const;

  MixtureConfig config_;
  DenoiserInfo info_;
};

/// A mixture with means drawn from the seed (deviation 1 per element).
/// The table is diffusers' linear one: 1000 betas from 0.0001 to 0.02.
[[nodiscard]] MixtureConfig random_mixture(std::uint64_t seed,
                                           const Shape& latent_shape,
                                           std::int64_t num_classes,
                                           int components_per_class,
                                           int num_blocks);

}  // namespace troupe::models

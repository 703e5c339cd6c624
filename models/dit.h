#pragma once

#include <span>

#include "models/dit_config.h"
#include "models/dit_modulation.h"
#include "models/dit_weights.h"
#include "models/patch_denoiser.h"

namespace troupe::models {

/// The diffusion transformer of Peebles & Xie 2023 (arXiv:2212.09748), with the
/// arithmetic of diffusers' DiTTransformer2DModel. (The authors' own code has
/// another eps and other timestep frequencies.)
///
/// Latents may be squares of any size in whole patches.
class Dit final : public PatchDenoiser {
 public:
  /// Loads the weights of `segment`. Errors: Errc::invalid_argument for blocks
  /// that do not exist; as load_dit_weights.
  Dit(ExecContext& ctx, const DitConfig& config, SegmentRange segment,
      DType compute, WeightSource& source,
      WeightPlacement placement = WeightPlacement::resident);

  [[nodiscard]] const DitConfig& config() const noexcept { return config_; }
  [[nodiscard]] PreparedPtr prepare(
      ExecContext& ctx, const Condition& condition,
      std::span<const double> timesteps = {}) const override;

 private:
  [[nodiscard]] const kernels::PackedLinear& patch_layer() const override {
    return weights_.patch;
  }
  [[nodiscard]] const kernels::PackedLinear& output_layer() const override {
    return weights_.proj_out_2;
  }
  [[nodiscard]] bool is_recordable() const override {
    return weights_.offloaded.empty();
  }
  [[nodiscard]] Tensor modulation_of(ExecContext& ctx, const Batch& rows,
                                     int begin, int end) const override;
  void run_rows(ExecContext& ctx, const Batch& rows, const Tensor& modulation,
                int begin, int end, Tensor& hidden_states) const override;
  [[nodiscard]] DitModulation modulation() const {
    return {config_, weights_, compute()};
  }

  DitConfig config_;
  DitWeights weights_;
};

}  // namespace troupe::models

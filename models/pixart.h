#pragma once

#include <span>

#include "models/patch_denoiser.h"
#include "models/pixart_conditioner.h"
#include "models/pixart_config.h"
#include "models/pixart_weights.h"

namespace troupe::models {

/// PixArt-Sigma (Chen et al. 2024, arXiv:2403.04692), with the arithmetic of
/// diffusers' PixArtTransformer2DModel: a DiT whose timestep modulates all
/// blocks alike, and whose tokens attend to a prompt's.
///
/// A condition is the tensor "prompt_embeds" [L, caption channels]; its
/// padding has no effect on any bit. Latents may be rectangles of any size in
/// whole patches.
class PixArt final : public PatchDenoiser {
 public:
  /// Loads the weights of `segment`. Errors: Errc::invalid_argument for blocks
  /// that do not exist; as load_pixart_weights.
  PixArt(ExecContext& ctx, const PixArtConfig& config, SegmentRange segment,
         DType compute, WeightSource& source,
         WeightPlacement placement = WeightPlacement::resident);

  /// Memory: 2D numbers in the compute type for each token of the prompt and
  /// each block; `info().bytes_per_timestep` for each of the timesteps.
  [[nodiscard]] PreparedPtr prepare(
      ExecContext& ctx, const Condition& condition,
      std::span<const double> timesteps = {}) const override;

 private:
  [[nodiscard]] const kernels::PackedLinear& patch_layer() const override {
    return weights_.patch;
  }
  [[nodiscard]] const kernels::PackedLinear& output_layer() const override {
    return weights_.proj_out;
  }
  [[nodiscard]] bool is_recordable() const override {
    return weights_.offloaded.empty();
  }
  void append_operands(ExecContext& ctx, const Batch& rows,
                       ReplayKey& key) const override;
  [[nodiscard]] Tensor modulation_of(ExecContext& ctx, const Batch& rows,
                                     int begin, int end) const override;
  void run_rows(ExecContext& ctx, const Batch& rows, const Tensor& modulation,
                int begin, int end, Tensor& hidden_states) const override;
  /// stream += CrossAttention(stream, prompts), without a norm. x: what the
  /// stream adds to.
  void add_cross_attention(ExecContext& ctx, int index,
                           std::span<const PixArtCondition* const> conditions,
                           const Tensor& x, BlockBuffers& buffers,
                           kernels::ResidualStream& stream) const;
  [[nodiscard]] PixArtConditioner conditioner() const {
    return {config_, weights_, compute()};
  }

  PixArtConfig config_;
  PixArtWeights weights_;
};

}  // namespace troupe::models

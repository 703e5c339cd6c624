#pragma once

#include <cstdint>
#include <memory>

#include "models/network/network_description.h"
#include "models/pixart/pixart_config.h"

namespace troupe::models {

/// PixArt-Sigma (Chen et al. 2024, arXiv:2403.04692), with the arithmetic of
/// diffusers' PixArtTransformer2DModel: a DiT whose timestep modulates all
/// blocks alike, and whose tokens attend to a prompt's.
///
/// A condition is the tensor "prompt_embeds" [L, caption channels] alone, f32,
/// bf16 or f16, with 1 to 4096 tokens that are no padding; padding has no
/// effect on any bit. Latents may be rectangles of any size in whole patches. A
/// boundary is "hidden_states" [N, D] f32. Costs are those with a prompt of 300
/// tokens.
class PixArtDescription final : public NetworkDescription {
 public:
  explicit PixArtDescription(const PixArtConfig& config) : config_(config) {}

  [[nodiscard]] Shape latent_shape() const override {
    return config_.grid().latent_shape();
  }
  [[nodiscard]] Shape nearest_latents(const Shape& wanted) const override {
    return config_.grid().nearest_latents(wanted);
  }
  void check_condition(const Condition& condition) const override;
  [[nodiscard]] std::int64_t prompt_width() const override {
    return config_.caption_channels;
  }
  [[nodiscard]] Condition any_condition(const PictureIds& ids) const override;
  [[nodiscard]] NetworkFacts facts() const override;
  [[nodiscard]] std::string_view config_keys() const override;
  [[nodiscard]] bool can_offload() const override { return true; }
  [[nodiscard]] std::unique_ptr<DenoiserDescription> with_blocks(
      int blocks) const override;

 protected:
  [[nodiscard]] std::string_view place() const override { return "pixart"; }
  [[nodiscard]] int num_blocks() const override {
    return static_cast<int>(config_.num_layers);
  }
  void describe(DenoiserInfo& info) const override;
  [[nodiscard]] std::unique_ptr<Network> read(LayerReader& reader,
                                              SegmentRange segment,
                                              DType compute) const override;
  [[nodiscard]] std::uint64_t hash_with_config(
      std::uint64_t tensors) const override;

 private:
  PixArtConfig config_;
};

}  // namespace troupe::models

#pragma once

#include <cstdint>
#include <memory>

#include "models/network/network_description.h"
#include "models/unet/unet_config.h"
#include "models/unet/unet_layout.h"

namespace troupe::models {

/// The UNet of Stable Diffusion 1.5, 2.1 and XL, with the arithmetic of
/// diffusers' UNet2DConditionModel. Blocks are the units of UNetLayout; a
/// boundary has the skips and "hidden", each [H, W, C] in the compute type.
///
/// A condition is "prompt_embeds" [L, cross_attention_dim] with 1 to 4096
/// tokens, f32, bf16 or f16; of SDXL also "pooled" [pooled width] of such a
/// type and "size_ids" [6] f32 (of its refiner [5]). Latents may have any
/// sides: an odd side is rounded up where it is halved, and the way up goes
/// back to the same sides, as in diffusers. Costs are those with a prompt of 77
/// tokens.
/// Source: Rombach et al. 2022, arXiv:2112.10752; Podell et al. 2023,
/// arXiv:2307.01952.
class UNetDescription final : public NetworkDescription {
 public:
  explicit UNetDescription(const UNetConfig& config)
      : config_(config), layout_(config) {}

  [[nodiscard]] Shape latent_shape() const override {
    return config_.latent_shape();
  }
  [[nodiscard]] Shape nearest_latents(const Shape& wanted) const override;
  void check_condition(const Condition& condition) const override;
  [[nodiscard]] std::int64_t prompt_width() const override {
    return config_.cross_attention_dim;
  }
  [[nodiscard]] std::int64_t pooled_width(
      const PictureIds& ids) const override {
    return config_.pooled_beside(ids.aesthetic_score ? UNetConfig::kScoredSizes
                                                     : UNetConfig::kSizes);
  }
  [[nodiscard]] bool takes_sides() const override {
    return config_.has_sizes();
  }
  /// As "size_ids".
  void add_sides(const PictureIds& ids, Condition& condition) const override;
  [[nodiscard]] Condition any_condition(const PictureIds& ids) const override;
  [[nodiscard]] NetworkFacts facts() const override;
  [[nodiscard]] std::string_view config_keys() const override;
  /// The whole network: what a block costs differs, and the last blocks need
  /// the first ones.
  [[nodiscard]] std::unique_ptr<DenoiserDescription> with_blocks(
      int blocks) const override;

 protected:
  [[nodiscard]] std::string_view place() const override { return "unet"; }
  [[nodiscard]] int num_blocks() const override { return layout_.size(); }
  void describe(DenoiserInfo& info) const override;
  [[nodiscard]] std::unique_ptr<Network> read(LayerReader& reader,
                                              SegmentRange segment,
                                              DType compute) const override;
  [[nodiscard]] std::uint64_t hash_with_config(
      std::uint64_t tensors) const override;

 private:
  UNetConfig config_;
  UNetLayout layout_;
};

}  // namespace troupe::models

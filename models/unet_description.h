#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/description.h"
#include "models/unet_config.h"
#include "models/unet_layout.h"

namespace troupe::models {

/// What is known of a UNet2DConditionModel from its configuration. Costs are
/// those with a prompt of 77 tokens.
class UNetDescription final : public DenoiserDescription {
 public:
  explicit UNetDescription(const UNetConfig& config)
      : config_(config), layout_(config) {}

  [[nodiscard]] Shape latent_shape() const override {
    return config_.latent_shape();
  }
  [[nodiscard]] Shape nearest_latents(const Shape& wanted) const override;
  [[nodiscard]] DenoiserInfo info(const Shape& latents,
                                  DType compute) const override;
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
  [[nodiscard]] NetworkMemory memory(
      const Shape& latents, DType compute, DeviceKind kind = DeviceKind::cpu,
      WeightPlacement placement = WeightPlacement::resident,
      SegmentRange segment = {}) const override;
  [[nodiscard]] NetworkFacts facts() const override;
  [[nodiscard]] std::string_view config_keys() const override;
  [[nodiscard]] ClassTensors tensors() const override;
  /// The whole network: what a block costs differs, and the last blocks need
  /// the first ones.
  [[nodiscard]] std::unique_ptr<DenoiserDescription> with_blocks(
      int blocks) const override;
  /// Errors also: Errc::unsupported for offloaded weights (can_offload).
  [[nodiscard]] std::unique_ptr<Denoiser> load(
      ExecContext& ctx, DType compute, WeightSource& weights,
      SegmentRange segment = {},
      WeightPlacement placement = WeightPlacement::resident) const override;
  [[nodiscard]] std::uint64_t weights_hash(
      ExecContext& ctx, WeightSource& weights) const override;

 private:
  UNetConfig config_;
  UNetLayout layout_;
};

}  // namespace troupe::models

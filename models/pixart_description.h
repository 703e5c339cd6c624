#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/description.h"
#include "models/pixart_config.h"

namespace troupe::models {

/// What is known of a PixArt from its configuration. Costs are those with a
/// prompt of 300 tokens.
class PixArtDescription final : public DenoiserDescription {
 public:
  explicit PixArtDescription(const PixArtConfig& config) : config_(config) {}

  [[nodiscard]] Shape latent_shape() const override {
    return config_.grid().latent_shape();
  }
  [[nodiscard]] Shape nearest_latents(const Shape& wanted) const override {
    return config_.grid().nearest_latents(wanted);
  }
  [[nodiscard]] DenoiserInfo info(const Shape& latents,
                                  DType compute) const override;
  void check_condition(const Condition& condition) const override;
  [[nodiscard]] std::int64_t prompt_width() const override {
    return config_.caption_channels;
  }
  [[nodiscard]] Condition any_condition(const PictureIds& ids) const override;
  [[nodiscard]] NetworkMemory memory(
      const Shape& latents, DType compute, DeviceKind kind = DeviceKind::cpu,
      WeightPlacement placement = WeightPlacement::resident,
      SegmentRange segment = {}) const override;
  [[nodiscard]] NetworkFacts facts() const override;
  [[nodiscard]] std::string_view config_keys() const override;
  [[nodiscard]] ClassTensors tensors() const override;
  [[nodiscard]] bool can_offload() const override { return true; }
  [[nodiscard]] std::unique_ptr<DenoiserDescription> with_blocks(
      int blocks) const override;
  [[nodiscard]] std::unique_ptr<Denoiser> load(
      ExecContext& ctx, DType compute, WeightSource& weights,
      SegmentRange segment = {},
      WeightPlacement placement = WeightPlacement::resident) const override;
  [[nodiscard]] std::uint64_t weights_hash(
      ExecContext& ctx, WeightSource& weights) const override;

 private:
  PixArtConfig config_;
};

}  // namespace troupe::models

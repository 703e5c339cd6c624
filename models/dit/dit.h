#pragma once

#include <cstdint>
#include <memory>

#include "models/dit/dit_config.h"
#include "models/network/network_description.h"

namespace troupe::models {

/// The diffusion transformer of Peebles & Xie 2023 (arXiv:2212.09748), with the
/// arithmetic of diffusers' DiTTransformer2DModel. (The authors' own code has
/// another eps and other timestep frequencies.)
///
/// Latents may be squares of any size in whole patches. A boundary is
/// "hidden_states" [N, D] f32.
class DitDescription final : public NetworkDescription {
 public:
  explicit DitDescription(const DitConfig& config) : config_(config) {}

  [[nodiscard]] Shape latent_shape() const override {
    return config_.latent_shape();
  }
  [[nodiscard]] Shape nearest_latents(const Shape& wanted) const override {
    return config_.grid().nearest_latents(wanted);
  }
  [[nodiscard]] NetworkFacts facts() const override;
  [[nodiscard]] std::string_view config_keys() const override;
  [[nodiscard]] bool can_offload() const override { return true; }
  [[nodiscard]] std::unique_ptr<DenoiserDescription> with_blocks(
      int blocks) const override;

 protected:
  [[nodiscard]] std::string_view place() const override { return "dit"; }
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
  DitConfig config_;
};

}  // namespace troupe::models

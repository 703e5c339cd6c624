#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/activation.h"
#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "models/decoder.h"
#include "models/files/config_fields.h"
#include "models/files/json.h"
#include "models/files/weight_source.h"
#include "models/network/latent_geometry.h"

namespace troupe::models {

class ImagePass;

/// The keys of diffusers' AutoencoderKL that reach the decoder's arithmetic;
/// defaults are the class's. Source: diffusers
/// models/autoencoders/autoencoder_kl.py.
struct AutoencoderKlConfig {
  std::int64_t out_channels = 3;
  std::vector<std::int64_t> block_out_channels = {64};
  std::int64_t layers_per_block = 1;
  kernels::Activation activation = kernels::Activation::silu;
  std::int64_t latent_channels = 4;
  std::int64_t norm_num_groups = 32;
  double scaling_factor = 0.18215;
  double shift_factor = 0.0;
  std::vector<double> latents_mean;  ///< empty or one per latent channel
  std::vector<double> latents_std;   ///< the same
  bool use_post_quant_conv = true;
  bool mid_block_add_attention = true;
  /// For each up block, whether attention follows the block's resnets. Empty:
  /// in no up block.
  std::vector<bool> up_block_attention;
  /// Of the pictures it was trained with, in pixels. Decides the tiles alone.
  std::int64_t sample_size = 32;

  [[nodiscard]] bool attends_in_up_block(std::size_t index) const {
    return !up_block_attention.empty() && up_block_attention[index];
  }
  /// Pixels per latent side.
  [[nodiscard]] std::int64_t scale() const noexcept {
    return std::int64_t{1} << (block_out_channels.size() - 1);
  }
  /// [C, H, W] of the picture that latents of this shape give.
  [[nodiscard]] Shape pixel_shape(const Shape& latents) const {
    const auto its = LatentGeometry::of(latents);
    return {out_channels, its.height * scale(), its.width * scale()};
  }
  /// Of a tile (tiled_decode.h), in latents; 0: the decoder has none.
  [[nodiscard]] std::int64_t tile_side() const noexcept {
    return sample_size / scale();
  }
};

constexpr void visit_fields(auto& visit,
                            AnyConst<AutoencoderKlConfig> auto& c) {
  visit({"out_channels", 1, 4096}, c.out_channels);
  visit({"block_out_channels", 1, 65536}, c.block_out_channels);
  visit({"layers_per_block", 1, 64}, c.layers_per_block);
  visit(ParsedKey({"act_fn"}), c.activation);
  visit({"latent_channels", 1, 4096}, c.latent_channels);
  visit({"norm_num_groups", 1, 65536}, c.norm_num_groups);
  visit({"scaling_factor"}, c.scaling_factor);
  visit({"shift_factor"}, c.shift_factor);
  visit({"latents_mean"}, c.latents_mean);
  visit({"latents_std"}, c.latents_std);
  visit({"use_post_quant_conv"}, c.use_post_quant_conv);
  visit({"mid_block_add_attention"}, c.mid_block_add_attention);
  visit(ParsedKey({.name = "up_block_types", .is_newer = true}),
        c.up_block_attention);
  // Jobs and recipes say how large tiles are.
  visit(ParsedKey({.name = "sample_size", .is_hashed = false}), c.sample_size);
}
static_assert(lists_all_members<AutoencoderKlConfig>());

/// Errors: Errc::corrupt_file; Errc::unsupported.
[[nodiscard]] AutoencoderKlConfig parse_autoencoder_kl_config(const Json& json);

/// Every tensor of the decoder, under its name in today's diffusers.
[[nodiscard]] std::vector<TensorSpec> autoencoder_kl_tensors(
    const AutoencoderKlConfig& config);

/// The names of these tensors, and the older names that files of 2022 have.
[[nodiscard]] std::vector<std::string> autoencoder_kl_names(
    const AutoencoderKlConfig& config);

/// From a metered run of the decoder (kernels/core/meter.h).
[[nodiscard]] DecodeCosts autoencoder_kl_costs(
    const AutoencoderKlConfig& config, DType compute, std::int64_t height,
    std::int64_t width);
/// Bytes of the packed weights.
[[nodiscard]] std::uint64_t autoencoder_kl_weights_bytes(
    const AutoencoderKlConfig& config, DType compute);

/// The weights_hash() that the loaded decoder would have. Nothing is packed,
/// and one tensor at a time is in memory. Errors: as WeightSource;
/// Errc::interrupted.
[[nodiscard]] std::uint64_t autoencoder_kl_weights_hash(
    ExecContext& ctx, const AutoencoderKlConfig& config, WeightSource& source);

class LayerReader;

/// The decoder of the latent autoencoder (Rombach et al. 2022,
/// arXiv:2112.10752). Channels last inside; activations in `compute`. On a GPU
/// decoding is recorded for each size of latents (ExecContext::replay).
class AutoencoderKl final : public Decoder {
 public:
  /// Errors: as WeightSource.
  AutoencoderKl(ExecContext& ctx, AutoencoderKlConfig config, DType compute,
                WeightSource& source);
  /// Layers as the reader gives them.
  AutoencoderKl(LayerReader& reader, AutoencoderKlConfig config, DType compute);
  ~AutoencoderKl() override;
  AutoencoderKl(const AutoencoderKl&) = delete;
  AutoencoderKl& operator=(const AutoencoderKl&) = delete;

  [[nodiscard]] const AutoencoderKlConfig& config() const noexcept {
    return config_;
  }
  [[nodiscard]] std::size_t parameter_bytes() const noexcept {
    return parameter_bytes_;
  }
  [[nodiscard]] std::uint64_t weights_hash() const override { return hash_; }
  [[nodiscard]] Shape pixel_shape(const Shape& latents) const override {
    return config_.pixel_shape(latents);
  }

  /// The normalisation of latents is undone first: z · std / scaling_factor +
  /// mean, or z / scaling_factor + shift_factor.
  void decode(ImagePass& layers, const Tensor& latents, std::int64_t tile,
              Tensor& out) const override;
  /// The same, whole.
  void decode(ImagePass& layers, const Tensor& latents, Tensor& out) const;
  /// The same, by one rank.
  void decode(ExecContext& ctx, const Tensor& latents, Tensor& out) const;
  /// Errors: those of `decode` for operands of wrong shapes.
  void check(const Tensor& latents, const Tensor& out) const;

 private:
  /// One rank's share. latents: [1, h, w, C] in the compute type, all of them;
  /// out [1, H, W, out_channels] f32, which rank 0 writes.
  void decode_pixels(ExecContext& ctx, ImagePass& layers, const Tensor& latents,
                     Tensor& out) const;

  AutoencoderKlConfig config_;
  DType compute_;
  struct Weights;
  std::shared_ptr<const Weights> weights_;  ///< also the owner of recordings
  std::size_t parameter_bytes_ = 0;
  std::uint64_t hash_ = 0;
};

}  // namespace troupe::models

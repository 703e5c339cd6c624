#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/device.h"
#include "models/autoencoder_kl.h"
#include "models/checkpoint.h"
#include "models/class_tensors.h"
#include "models/denoiser.h"
#include "models/placement.h"
#include "models/segment.h"
#include "models/weight_source.h"

namespace troupe::models {

/// What a network takes of a device's memory.
struct NetworkMemory {
  /// Packed weights, and what loading takes beside them for a moment.
  std::uint64_t weights_bytes = 0;
  /// Of every context: the places of offloaded blocks.
  std::uint64_t visiting_bytes = 0;
  /// Of a row: latents, output, and what a sampler remembers.
  std::uint64_t row_bytes = 0;
  /// Activations of a row while it is computed, at most `rows_at_once` rows
  /// together.
  std::uint64_t pass_bytes = 0;
  std::int64_t rows_at_once = 1;

  /// Beside the weights, for a pass of so many rows.
  [[nodiscard]] std::uint64_t of_rows(std::int64_t rows) const noexcept {
    return static_cast<std::uint64_t>(std::min(rows, rows_at_once)) *
               pass_bytes +
           static_cast<std::uint64_t>(rows) * row_bytes;
  }
};

/// A number of the architecture that people know it by: {"width", 1152}.
struct NetworkFact {
  std::string_view name;
  std::int64_t value = 0;
};

/// A denoising network as its config.json describes it, known before any weight
/// is read. Nobody outside a model's files reads its configuration: what the
/// house needs to know of a network is asked here.
/// Immutable. Thread: any.
class DenoiserDescription {
 public:
  virtual ~DenoiserDescription() = default;

  /// Latents of the size that it was trained with, one sample.
  [[nodiscard]] virtual Shape latent_shape() const = 0;
  /// `wanted` if the network takes such latents, else the nearest that it does.
  [[nodiscard]] virtual Shape nearest_latents(const Shape& wanted) const = 0;
  /// Shapes, branches and costs for latents of such a shape.
  [[nodiscard]] virtual DenoiserInfo info(const Shape& latents,
                                          DType compute) const = 0;
  /// Checks names, shapes and values of a condition. Here: those of networks
  /// that are conditioned on a class label alone.
  /// Errors: Errc::invalid_argument with the tensor's name.
  virtual void check_condition(const Condition& condition) const;
  [[nodiscard]] virtual NetworkMemory memory(
      const Shape& latents, DType compute, DeviceKind kind = DeviceKind::cpu,
      WeightPlacement placement = WeightPlacement::resident,
      SegmentRange segment = {}) const = 0;
  [[nodiscard]] virtual std::vector<NetworkFact> facts() const = 0;
  /// Keys that diffusers' class has in its config.json, separated by spaces.
  /// Others are reported.
  [[nodiscard]] virtual std::string_view config_keys() const = 0;
  /// Every tensor that the class has in its state dict.
  [[nodiscard]] virtual ClassTensors tensors() const = 0;
  /// The same network with its first blocks alone, to measure their speed.
  [[nodiscard]] virtual std::unique_ptr<DenoiserDescription> with_blocks(
      int blocks) const = 0;

  /// Errors: Errc::invalid_argument for blocks that do not exist; those of
  /// WeightSource.
  [[nodiscard]] virtual std::unique_ptr<Denoiser> load(
      ExecContext& ctx, DType compute, WeightSource& weights,
      SegmentRange segment = {},
      WeightPlacement placement = WeightPlacement::resident) const = 0;
  /// The hash that the whole network would have: one tensor at a time is in
  /// memory. Errors: those of WeightSource; Errc::interrupted.
  [[nodiscard]] virtual std::uint64_t weights_hash(
      ExecContext& ctx, WeightSource& weights) const = 0;
};

/// All that the house knows of one denoiser's class; its row stands at the end
/// of its own file. To add one: see README.md.
struct DenoiserRow {
  /// `_class_name` in config.json.
  std::string_view class_name;
  /// Errors: Errc::corrupt_file; Errc::unsupported.
  std::unique_ptr<DenoiserDescription> (*describe)(const Json& config);
};

using DenoiserTable = std::span<const DenoiserRow* const>;
/// Those that Troupe has.
[[nodiscard]] DenoiserTable denoiser_table();

/// Errors: Errc::unsupported for a class that is not in the table.
[[nodiscard]] const DenoiserRow& find_denoiser(
    const Json& config, std::string_view class_name,
    DenoiserTable table = denoiser_table());

/// The one decoder that there is, AutoencoderKL, in the same way.
class DecoderDescription {
 public:
  static constexpr std::string_view kConfigKeys =
      "act_fn block_out_channels down_block_types force_upcast in_channels "
      "latent_channels latents_mean latents_std layers_per_block "
      "mid_block_add_attention norm_num_groups out_channels sample_size "
      "scaling_factor shift_factor up_block_types use_post_quant_conv "
      "use_quant_conv";

  /// Errors: as parse_autoencoder_kl_config.
  explicit DecoderDescription(const Json& config);

  [[nodiscard]] std::int64_t latent_channels() const noexcept {
    return config_.latent_channels;
  }
  /// Pixels per latent side.
  [[nodiscard]] std::int64_t scale() const noexcept { return config_.scale(); }
  /// [C, H, W] of the picture of such latents.
  [[nodiscard]] Shape pixel_shape(const Shape& latents) const;
  [[nodiscard]] double flops(const Shape& latents) const;
  [[nodiscard]] std::uint64_t weights_bytes(DType compute) const;
  /// Activations while one picture is decoded.
  [[nodiscard]] std::uint64_t picture_bytes(const Shape& latents,
                                            DType compute) const;
  [[nodiscard]] ClassTensors tensors() const;
  [[nodiscard]] std::unique_ptr<AutoencoderKl> load(
      ExecContext& ctx, DType compute, WeightSource& weights) const;
  [[nodiscard]] std::uint64_t weights_hash(ExecContext& ctx,
                                           WeightSource& weights) const;

 private:
  AutoencoderKlConfig config_;
  bool has_quant_conv_ = true;
};

/// A whole model.
struct ModelDescription {
  std::shared_ptr<const DenoiserDescription> denoiser;
  std::optional<DecoderDescription> decoder;  ///< none: it works on pixels

  /// [C, H, W] of the picture of such latents.
  [[nodiscard]] Shape pixel_shape(const Shape& latents) const {
    return decoder ? decoder->pixel_shape(latents) : latents;
  }
};

/// The parts of a checkpoint, checked against each other: there is a class for
/// each, they fit together, and the files hold nothing that their class does
/// not have. `notes` gets a line for each part with tensors that nobody reads.
/// Errors: Errc::unsupported; Errc::corrupt_file.
[[nodiscard]] ModelDescription describe_model(
    const Checkpoint& checkpoint, std::vector<std::string>& notes,
    DenoiserTable table = denoiser_table());

}  // namespace troupe::models

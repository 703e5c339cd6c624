#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/attention_plan.h"
#include "kernels/core/device.h"
#include "kernels/core/fields.h"
#include "models/decoder.h"
#include "models/files/checkpoint.h"
#include "models/files/class_tensors.h"
#include "models/files/weight_source.h"
#include "models/network/denoiser.h"
#include "models/network/latent_geometry.h"
#include "models/network/placement.h"
#include "models/network/segment.h"
#include "models/network/thread_scratch.h"

namespace troupe::models {

/// Memory that a network takes on a device.
struct NetworkMemory {
  /// What a sampler keeps of a row beside the network's output: latents before
  /// and after the step, the network's input, noise, and up to four remembered
  /// tensors.
  static constexpr std::int64_t kLatentsPerRow = 8;

  /// Packed weights, and what is needed beside them while they are loaded.
  std::uint64_t weights_bytes = 0;
  /// For each context: room for offloaded blocks while they are on the device.
  std::uint64_t visiting_bytes = 0;
  /// For each row: latents, output, and what a sampler remembers.
  std::uint64_t row_bytes = 0;
  /// Bytes of activations per row in a pass; a pass has at most `rows_at_once`
  /// rows.
  std::uint64_t pass_bytes = 0;
  std::int64_t rows_at_once = 1;
  /// On the CPU, for each context beside its rows; on a GPU none.
  ThreadScratch scratch;

  /// Bytes beside the weights for a pass of so many rows.
  [[nodiscard]] std::uint64_t of_rows(std::int64_t rows) const noexcept {
    return static_cast<std::uint64_t>(std::min(rows, rows_at_once)) *
               pass_bytes +
           static_cast<std::uint64_t>(rows) * row_bytes;
  }
};

/// What equal ranks do in a pass of one row.
struct ShardFigures {
  struct Rank {
    double flops = 0;
    std::uint64_t received_bytes = 0;  ///< of what other ranks wrote
    std::uint64_t pass_bytes = 0;      ///< its own activations
    std::uint64_t shared_bytes = 0;    ///< tensors that it shares
  };
  std::vector<Rank> ranks;
  int exchanges = 0;

  /// The most operations of a rank over those of a pass by one rank alone.
  [[nodiscard]] double slowest_share(double flops_alone) const;
  [[nodiscard]] std::uint64_t most_received_bytes() const;
  /// Activations and shared tensors of the rank with the most of them.
  [[nodiscard]] std::uint64_t most_bytes() const;
  /// Of all ranks together, if they share one memory.
  [[nodiscard]] std::uint64_t bytes_in_one_memory() const;
};

/// What SDXL is told of a picture, in pixels: the sides of its original, how
/// far that was cut off at the top and at the left, and the picture's own
/// sides.
struct PictureIds {
  std::int64_t original_height = 0;
  std::int64_t original_width = 0;
  std::int64_t crop_top = 0;
  std::int64_t crop_left = 0;
  std::int64_t target_height = 0;
  std::int64_t target_width = 0;
  /// In place of the picture's own sides: what SDXL's refiner is told.
  std::optional<double> aesthetic_score = {};
};

/// Numbers that describe an architecture. What it does not have is unset.
struct NetworkFacts {
  std::optional<std::int64_t> blocks = {};
  std::optional<std::int64_t> width = {};
  std::optional<std::int64_t> heads = {};
  std::optional<std::int64_t> tokens = {};
  std::optional<std::int64_t> widest = {};
  std::optional<std::int64_t> levels = {};
  std::optional<std::int64_t> transformer_blocks = {};
  std::optional<std::int64_t> caption_width = {};
};

void visit_fields(auto& visit, AnyConst<NetworkFacts> auto& r) {
  visit({"blocks", "transformer blocks"}, r.blocks);
  visit({"width", "channels of a token"}, r.width);
  visit({"heads", "attention heads"}, r.heads);
  visit({"tokens", "tokens of an image"}, r.tokens);
  visit({"widest", "UNet: most channels of a level"}, r.widest);
  visit({"levels", "UNet: sizes of its feature maps"}, r.levels);
  visit({"transformer_blocks", "UNet: those of all its levels"},
        r.transformer_blocks);
  visit({"caption_width", "channels of a prompt's token"}, r.caption_width);
}

/// What is known of a denoising network from its config.json, before any weight
/// is read. Code outside a model's files never reads its configuration; it asks
/// here. Immutable. Thread: any.
class DenoiserDescription {
 public:
  virtual ~DenoiserDescription() = default;

  /// Shape of one sample's latents, of the size it was trained with: [C, …].
  [[nodiscard]] virtual Shape latent_shape() const = 0;
  /// `wanted` if the network takes latents of this shape, else the nearest
  /// shape that it takes.
  [[nodiscard]] virtual Shape nearest_latents(const Shape& wanted) const = 0;
  /// Shapes, branches and costs for latents of this shape.
  [[nodiscard]] virtual DenoiserInfo info(const Shape& latents,
                                          DType compute) const = 0;
  /// Width of prompt_embeds; 0: it takes no prompt.
  [[nodiscard]] virtual std::int64_t prompt_width() const { return 0; }
  /// Width of the pooled vector that it takes beside `ids`; 0: none.
  [[nodiscard]] virtual std::int64_t pooled_width(
      const PictureIds& /*ids*/) const {
    return 0;
  }
  /// Whether it is told the picture's sides.
  [[nodiscard]] virtual bool takes_sides() const { return false; }
  /// Adds what a network that takes sides is told of the picture, unless the
  /// condition has it. Here: adds nothing.
  virtual void add_sides(const PictureIds& /*ids*/,
                         Condition& /*condition*/) const {}
  /// A valid condition, to measure the speed of the network: class 0, or random
  /// prompt_embeds of the longest prompt, with `ids` where it takes sides.
  [[nodiscard]] virtual Condition any_condition(
      const PictureIds& /*ids*/) const {
    return {0};
  }
  /// Checks names, shapes and values of a condition. Here: those of networks
  /// that are conditioned on a class label alone.
  /// Errors: Errc::invalid_argument with the tensor's name.
  virtual void check_condition(const Condition& condition) const;
  [[nodiscard]] virtual NetworkMemory memory(
      const Shape& latents, DType compute, DeviceKind kind = DeviceKind::cpu,
      WeightPlacement placement = WeightPlacement::resident,
      SegmentRange segment = {}) const = 0;
  /// From a metered run of every rank. world_size: from 2 to
  /// DenoiserInfo::most_shards. Errors: Errc::unsupported for a kind of device
  /// whose ranks do not divide this network. Here: always.
  [[nodiscard]] virtual ShardFigures shard_figures(const Shape& latents,
                                                   DType compute,
                                                   DeviceKind kind,
                                                   AttentionPlan plan,
                                                   int world_size) const;
  [[nodiscard]] virtual NetworkFacts facts() const = 0;
  /// Keys that the diffusers class has in its config.json, separated by spaces.
  /// A message names other keys of the file to the user.
  [[nodiscard]] virtual std::string config_keys() const = 0;
  /// Every tensor that the diffusers class has in its state dict.
  [[nodiscard]] virtual ClassTensors tensors() const = 0;
  /// Whether its blocks' weights may be offloaded (placement.h). Here: no.
  [[nodiscard]] virtual bool can_offload() const { return false; }
  /// A network of such blocks to time: so many, or the fewest it can have.
  [[nodiscard]] virtual std::unique_ptr<DenoiserDescription> with_blocks(
      int blocks) const = 0;

  /// Errors: Errc::invalid_argument for blocks that do not exist; those of
  /// WeightSource.
  [[nodiscard]] virtual std::unique_ptr<Denoiser> load(
      ExecContext& ctx, DType compute, WeightSource& weights,
      SegmentRange segment = {},
      WeightPlacement placement = WeightPlacement::resident) const = 0;
  /// The DenoiserInfo::weights_hash that the whole network would have when
  /// loaded. One tensor at a time is in memory. Errors: those of WeightSource;
  /// Errc::interrupted.
  [[nodiscard]] virtual std::uint64_t weights_hash(
      ExecContext& ctx, WeightSource& weights) const = 0;
};

/// One row of the table of networks. It stands at the end of the network's own
/// file. To add one: see README.md.
struct DenoiserRow {
  /// `_class_name` in config.json.
  std::string_view class_name;
  /// Errors: Errc::corrupt_file; Errc::unsupported.
  std::unique_ptr<DenoiserDescription> (*describe)(const Json& config);
};

using DenoiserTable = std::span<const DenoiserRow* const>;
/// The networks that Troupe has.
[[nodiscard]] DenoiserTable denoiser_table();

/// The row of `class_name`. `config` is where errors say the name comes from.
/// Errors: Errc::unsupported for a name that is not in the table.
[[nodiscard]] const DenoiserRow& find_denoiser(
    const Json& config, std::string_view class_name,
    DenoiserTable table = denoiser_table());

/// A whole model.
struct ModelDescription {
  std::shared_ptr<const DenoiserDescription> denoiser;
  /// Null: latents are pixels.
  std::shared_ptr<const DecoderDescription> decoder;

  /// [C, H, W] of the picture that latents of this shape give.
  [[nodiscard]] Shape pixel_shape(const Shape& latents) const {
    return decoder ? decoder->pixel_shape(latents) : latents;
  }
};

/// Errors: Errc::unsupported for a class that is not in the table; as
/// DecoderRow::describe.
[[nodiscard]] std::unique_ptr<DecoderDescription> describe_decoder(
    const Json& config);
/// Checks that the decoder takes the network's latents and that its pictures
/// are not too large. Errors: Errc::corrupt_file, Errc::unsupported, with
/// `place`.
void check_fit(const ModelDescription& model, const std::string& place);

/// Describes a checkpoint and checks it: Troupe has its network and its
/// decoder, they fit together, and the files have no tensor that their
/// diffusers class lacks. Adds a line to `notes` for each part with tensors
/// that nobody reads.
/// Errors: Errc::unsupported; Errc::corrupt_file.
[[nodiscard]] ModelDescription describe_model(
    const Checkpoint& checkpoint, std::vector<std::string>& notes,
    DenoiserTable table = denoiser_table());

}  // namespace troupe::models

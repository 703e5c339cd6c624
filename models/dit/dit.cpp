#include "models/dit/dit.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/activation.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/elementwise.h"
#include "models/dit/transformer_keys.h"
#include "models/layers/adaln_block.h"
#include "models/layers/patch_embedding.h"
#include "models/layers/timestep_embedding.h"
#include "models/network/description_of.h"

// B rows of a batch, R rows of a timestep table, N tokens, D width.

namespace troupe::models {
namespace dit {
namespace {

using kernels::Activation;

constexpr float kFirstNormEps = 1e-6F;  // fixed in diffusers, not norm_eps
constexpr std::int64_t kFrequencies = 256;

/// Embeds (timestep, class). Files store an embedder for each block; in
/// published checkpoints all embedders are equal, and one is held.
struct Embedder {
  kernels::PackedLinear timestep_1;  ///< 256 → D
  kernels::PackedLinear timestep_2;  ///< D → D
  Tensor class_table;                ///< [classes + 1, D] f32
};

struct Block : AdalnLayers {
  std::shared_ptr<const Embedder> embedder;
  /// D → 6D. Gain and bias of an affine norm are folded in.
  kernels::PackedLinear modulation;
};

/// Blocks of a segment, the patch embedding if block 0 is among them, and the
/// output layers if the last one is.
struct Weights {
  kernels::PackedLinear patch;  ///< C·p·p → D
  std::vector<Block> blocks;
  std::shared_ptr<const Embedder> embedder_0;  ///< block 0's, for the output
  kernels::PackedLinear proj_out_1;            ///< D → 2D: shift, scale
  kernels::PackedLinear proj_out_2;            ///< D → p·p·C_out
};

/// Reads embedders; blocks with equal ones share an object.
class Embedders {
 public:
  std::shared_ptr<const Embedder> read(LayerReader& reader,
                                       const DitConfig& config,
                                       std::int64_t block) {
    const std::string name = block_name(block) + "norm1.emb.";
    const std::int64_t width = config.width();
    const LinearSpec first =
        linear_spec(name + "timestep_embedder.linear_1", width, kFrequencies);
    const LinearSpec second =
        linear_spec(name + "timestep_embedder.linear_2", width, width);
    const TensorSpec table = {name + "class_embedder.embedding_table.weight",
                              Shape{config.num_classes + 1, width}};
    if (reader.lists() || reader.meters()) {
      auto& one = known_[0];
      if (reader.lists() || !one) {
        one = std::make_shared<const Embedder>(Embedder{
            reader.linear(first), reader.linear(second), reader.table(table)});
      }
      return one;
    }
    const Tensor parts[] = {reader.stored(first.weight),
                            reader.stored(first.bias),
                            reader.stored(second.weight),
                            reader.stored(second.bias), reader.f32(table)};
    Xxh3Stream hash;
    for (const Tensor& part : parts) {
      hash.update(part.bytes());
    }
    auto& shared = known_[hash.digest()];
    if (!shared) {
      shared = std::make_shared<const Embedder>(
          Embedder{reader.pack(parts[0], parts[1]),
                   reader.pack(parts[2], parts[3]), reader.upload(parts[4])});
    }
    return shared;
  }

 private:
  std::map<std::uint64_t, std::shared_ptr<const Embedder>> known_;
};

/// (1 + scale)·(gain·x + bias) + shift is (1 + scale')·x + shift' with scale' =
/// gain·(1 + scale) − 1 and shift' = bias·(1 + scale) + shift. Both are linear
/// in what scale and shift are made of.
kernels::PackedLinear read_affine_modulation(LayerReader& reader,
                                             const std::string& name,
                                             std::int64_t width) {
  const LinearSpec spec = linear_spec(name + "norm1.linear", 6 * width, width);
  const TensorSpec gain_spec = {name + "norm3.weight", Shape{width}};
  const TensorSpec bias_spec = {name + "norm3.bias", Shape{width}};
  if (reader.meters()) {
    return reader.linear(spec);
  }
  Tensor weight = reader.f32(spec.weight);      // [6D, D]
  Tensor bias = reader.f32(spec.bias);          // [6D]
  const Tensor gains = reader.f32(gain_spec);   // [D]
  const Tensor biases = reader.f32(bias_spec);  // [D]
  for (std::int64_t i = 0; i < gains.num_elements(); ++i) {
    const float gain = gains.data<float>()[i];
    const float offset = biases.data<float>()[i];
    const std::int64_t shift = 3 * width + i;
    const std::int64_t scale = 4 * width + i;
    float* shift_row = weight.data<float>() + shift * width;
    float* scale_row = weight.data<float>() + scale * width;
    for (std::int64_t k = 0; k < width; ++k) {
      shift_row[k] += offset * scale_row[k];
      scale_row[k] *= gain;
    }
    float* values = bias.data<float>();
    values[shift] += offset * (1.0F + values[scale]);
    values[scale] = gain * (1.0F + values[scale]) - 1.0F;
  }
  return reader.pack(weight, bias);
}

Weights read_weights(LayerReader& reader, const DitConfig& config,
                     SegmentRange segment, const PatchEmbedding& patches) {
  const std::int64_t width = config.width();
  const std::int64_t p = config.patch_size;
  const AdalnShape shape = config.block_shape();
  Embedders embedders;
  Weights weights;
  if (segment.begin == 0) {
    weights.patch = patches.read(reader);
  }
  for (int i = segment.begin; i < segment.end; ++i) {
    const std::string name = block_name(i);
    Block& block = weights.blocks.emplace_back();
    block.embedder = embedders.read(reader, config, i);
    reader.begin_block();
    block.modulation = config.norm_elementwise_affine
                           ? read_affine_modulation(reader, name, width)
                           : reader.linear(linear_spec(name + "norm1.linear",
                                                       6 * width, width));
    block.read_attention(reader, name, shape, config.attention_bias);
    block.read_feed_forward(reader, name, shape);
    reader.offload({&block.qkv, &block.out, &block.mlp_up, &block.mlp_down});
    reader.offload({&block.modulation});
    reader.end_blocks();
  }
  if (segment.end == config.num_layers) {
    weights.embedder_0 = segment.begin == 0 ? weights.blocks.front().embedder
                                            : embedders.read(reader, config, 0);
    weights.proj_out_1 =
        reader.linear(linear_spec("proj_out_1", 2 * width, width));
    weights.proj_out_2 = reader.linear(
        linear_spec("proj_out_2", p * p * config.out_channels, width));
  }
  return weights;
}

class Dit final : public Network {
 public:
  static constexpr std::string_view kClass = "DiTTransformer2DModel";
  static constexpr std::string_view kPlace = "dit";

  Dit(LayerReader& reader, const DitConfig& config, SegmentRange segment,
      DType compute)
      : Network({.place = kPlace,
                 .segment = segment,
                 .stages = std::vector<Stage>(
                     static_cast<std::size_t>(config.num_layers) + 2),
                 .streams = {{"hidden_states", true}},
                 .out_channels = config.out_channels,
                 .compute = compute,
                 .sharding = Sharding::tokens}),
        config_(config),
        patches_(config.grid(), config.width(), 1.0),
        weights_(read_weights(reader, config, segment, patches_)) {}

  void check_latents(const Shape& latents) const override {
    patches_.check_latents(layout().place, latents);
  }
  [[nodiscard]] std::int64_t rows_at_once(const Shape& latents,
                                          DeviceKind kind) const override {
    return models::rows_at_once(config_.grid().num_tokens(latents), kind);
  }

  void prepare(ExecContext& /*ctx*/, const Condition& condition,
               Prepared& prepared) const override {
    prepared.class_label = checked_class_label(condition, config_.num_classes);
  }

  /// Shift, scale and gate of both branches of a block; shift and scale of the
  /// output layers.
  [[nodiscard]] std::int64_t columns(int stage) const override {
    const int parts = stage == 0 ? 0 : stage > num_blocks() ? 2 : kAdalnColumns;
    return parts * config_.width();
  }

  /// The table uses a third of the network's weights, but for one vector per
  /// row where the other weights see hundreds of tokens.
  void fill_table(ExecContext& ctx,
                  std::span<const TableRow> rows) const override {
    const auto count = static_cast<std::int64_t>(rows.size());
    Tensor activated =
        ctx.workspace().take({count, 1, config_.width()}, compute());
    const Embedder* embedder = nullptr;
    std::int64_t column = 0;
    const auto add = [&](const Embedder& own,
                         const kernels::PackedLinear& layer) {
      if (&own != embedder) {
        embedder = &own;
        embed(ctx, rows, own, activated);
      }
      const Workspace::Scope scope(ctx.workspace());
      const std::int64_t width = layer.out_features();
      Tensor made = ctx.workspace().take({count, 1, width}, DType::f32);
      kernels::linear(ctx, activated, layer, Activation::none,
                      made);  // [R, 1, 6D or 2D]
      put_columns(ctx, made, rows, column);
      column += width;
    };
    for (int i = segment().begin; i < segment().end; ++i) {
      const Block& block = this->block(i);
      fetch_prepared(ctx, i);
      add(*block.embedder, block.modulation);
    }
    if (segment().end == num_blocks()) {
      add(*weights_.embedder_0, weights_.proj_out_1);
    }
  }

  void run(Pass& pass, int stage, State& state) const override {
    if (stage == 0) {
      return patches_.embed(pass, weights_.patch, state);
    }
    const Columns mod = pass.mod(stage, config_.width());
    if (stage > num_blocks()) {
      return patches_.finish(pass, mod, weights_.proj_out_2);
    }
    const Block& block = this->block(stage - 1);
    const AdalnShape shape = config_.block_shape();
    const Workspace::Scope scope(pass.workspace());
    BlockBuffers buffers(pass, shape, state.streams[0].x);
    add_self_attention(pass, shape, block, mod, kFirstNormEps, buffers);
    add_feed_forward(pass, shape, block, mod, config_.norm_eps, buffers);
  }

 private:
  [[nodiscard]] const Block& block(int index) const {
    return weights_.blocks[static_cast<std::size_t>(index - segment().begin)];
  }

  /// activated [R, 1, D]: SiLU of the sum of the timestep's and the class's
  /// embedding.
  void embed(ExecContext& ctx, std::span<const TableRow> rows,
             const Embedder& embedder, Tensor& activated) const {
    const Workspace::Scope scope(ctx.workspace());
    const Tensor sum =
        embed_timesteps(ctx, rows, {.frequencies = kFrequencies, .shift = 1},
                        embedder.timestep_1, embedder.timestep_2);  // [R, 1, D]
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Tensor row = sum.item(static_cast<std::int64_t>(i));  // [1, D]
      kernels::add(ctx,
                   embedder.class_table.item(rows[i].prepared->class_label)
                       .reshape(row.shape()),
                   row);
    }
    kernels::activate(ctx, sum, Activation::silu, activated);  // [R, 1, D]
  }

  DitConfig config_;
  PatchEmbedding patches_;
  Weights weights_;
};

class Description final : public DescriptionOf<Description, DitConfig, Dit> {
 public:
  using DescriptionOf::DescriptionOf;
  static void set_blocks(DitConfig& config, int blocks) {
    config.num_layers = blocks;
  }

  [[nodiscard]] Shape nearest_latents(const Shape& wanted) const override {
    return config().grid().nearest_latents(wanted);
  }
  [[nodiscard]] NetworkFacts facts() const override {
    return {.blocks = config().num_layers,
            .width = config().width(),
            .heads = config().num_attention_heads,
            .tokens = config().grid().num_tokens(latent_shape())};
  }
  [[nodiscard]] std::string config_keys() const override {
    return transformer_keys();
  }
  [[nodiscard]] bool can_offload() const override { return true; }

 protected:
  void describe(DenoiserInfo& info) const override {
    info.out_channels = config().out_channels;
    info.guided_channels =
        std::min(config().in_channels, config().out_channels);
    info.branch_order = BranchOrder::cond_uncond;
    info.num_classes = config().num_classes;
  }
};

}  // namespace
}  // namespace dit

std::unique_ptr<NetworkDescription> describe(const DitConfig& config) {
  return std::make_unique<dit::Description>(config);
}

extern constinit const DenoiserRow kDit =
    network_row<dit::Description, parse_dit_config>();

}  // namespace troupe::models

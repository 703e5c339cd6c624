#include "models/pixart/pixart.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/activation.h"
#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "kernels/core/noise.h"
#include "kernels/elementwise.h"
#include "models/dit/transformer_keys.h"
#include "models/layers/adaln_block.h"
#include "models/layers/patch_embedding.h"
#include "models/layers/prompt_tensors.h"
#include "models/layers/timestep_embedding.h"
#include "models/network/description_of.h"

// B rows of a batch, R rows of a timestep table, N tokens, L tokens of a row's
// prompt, D width.

namespace troupe::models {
namespace pixart {
namespace {

using kernels::Activation;

constexpr const char* kPrompt = "prompt_embeds";
/// What PixArt-Sigma's pipeline cuts prompts to.
constexpr std::int64_t kPromptTokens = 300;
constexpr std::int64_t kFrequencies = 256;

const ConditionTensor& checked_prompt(const PixArtConfig& config,
                                      const Condition& condition) {
  for (const ConditionTensor& item : condition.tensors()) {
    require(item.name == kPrompt, Errc::invalid_argument, item.name,
            "the network does not take it: expected prompt_embeds alone");
  }
  return checked_prompt_embeds(condition, config.caption_channels);
}

struct Block : AdalnLayers {
  kernels::PackedLinear cross_query;      ///< D → D
  kernels::PackedLinear cross_key_value;  ///< D → 2D: keys, values
  kernels::PackedLinear cross_out;        ///< D → D
};

/// Blocks of a segment and what every segment needs; the patch embedding if
/// block 0 is among them, and the output layers if the last one is.
struct Weights {
  kernels::PackedLinear patch;       ///< C·p·p → D
  kernels::PackedLinear timestep_1;  ///< 256 → D
  kernels::PackedLinear timestep_2;  ///< D → D
  kernels::PackedLinear six;         ///< D → 6D
  kernels::PackedLinear caption_1;   ///< caption channels → D
  kernels::PackedLinear caption_2;   ///< D → D
  std::vector<Block> blocks;
  /// What the blocks add to the timestep's part, side by side: 6D for each of
  /// the segment, and 2D for the output layers. [W] f32.
  Tensor tables;
  kernels::PackedLinear proj_out;  ///< D → p·p·C_out
};

/// Reads the learned tables of the blocks, side by side.
class Tables {
 public:
  Tables(LayerReader& reader, std::int64_t width, std::int64_t parts)
      : reader_(reader),
        width_(width),
        values_(Shape{parts * width}, DType::f32) {}

  void add(const std::string& name, std::int64_t parts) {
    const Tensor read = reader_.f32({name, Shape{parts, width_}});
    std::ranges::copy(read.span<float>(), values_.data<float>() + at_);
    at_ += parts * width_;
  }
  [[nodiscard]] Tensor on_device() const { return reader_.upload(values_); }

 private:
  LayerReader& reader_;
  std::int64_t width_;
  Tensor values_;
  std::int64_t at_ = 0;
};

Block read_block(LayerReader& reader, const std::string& name,
                 const PixArtConfig& config) {
  const AdalnShape shape = config.block_shape();
  const AttentionSpec cross =
      attention_spec(name + "attn2", shape.width(), config.attention_bias);
  Block block;
  block.read_attention(reader, name, shape, config.attention_bias);
  block.cross_query = reader.linear(cross.q);
  block.cross_key_value = reader.fused({cross.k, cross.v});
  block.cross_out = reader.linear(cross.out);
  block.read_feed_forward(reader, name, shape);
  reader.offload({&block.qkv, &block.out, &block.cross_query, &block.cross_out,
                  &block.mlp_up, &block.mlp_down});
  reader.offload({&block.cross_key_value});
  return block;
}

Weights read_weights(LayerReader& reader, const PixArtConfig& config,
                     SegmentRange segment, const PatchEmbedding& patches) {
  const std::int64_t width = config.width();
  const std::int64_t p = config.patch_size;
  const bool is_last = segment.end == config.num_layers;
  const std::string timestep = "adaln_single.emb.timestep_embedder.";
  Weights weights;
  if (segment.begin == 0) {
    weights.patch = patches.read(reader);
  }
  weights.timestep_1 =
      reader.linear(linear_spec(timestep + "linear_1", width, kFrequencies));
  weights.timestep_2 =
      reader.linear(linear_spec(timestep + "linear_2", width, width));
  weights.six =
      reader.linear(linear_spec("adaln_single.linear", 6 * width, width));
  weights.caption_1 = reader.linear(linear_spec(
      "caption_projection.linear_1", width, config.caption_channels));
  weights.caption_2 =
      reader.linear(linear_spec("caption_projection.linear_2", width, width));
  Tables tables(
      reader, width,
      kAdalnColumns * (segment.end - segment.begin) + (is_last ? 2 : 0));
  for (int i = segment.begin; i < segment.end; ++i) {
    reader.begin_block();
    const std::string name = block_name(i);
    tables.add(name + "scale_shift_table", kAdalnColumns);
    weights.blocks.push_back(read_block(reader, name, config));
    reader.end_blocks();
  }
  if (is_last) {
    tables.add("scale_shift_table", 2);
    weights.proj_out = reader.linear(
        linear_spec("proj_out", p * p * config.out_channels, width));
  }
  weights.tables = tables.on_device();
  return weights;
}

/// A row of the timestep table is adaLN-single (Chen et al. 2023,
/// arXiv:2310.00426, section 2.3): six D for all blocks, and twice the
/// embedding for the output layers, 8D. A stage's modulation is that plus the
/// learned table of the stage.
class PixArt final : public Network {
 public:
  static constexpr std::string_view kClass = "PixArtTransformer2DModel";
  static constexpr std::string_view kPlace = "pixart";

  PixArt(LayerReader& reader, const PixArtConfig& config, SegmentRange segment,
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
        patches_(config.grid(), config.width(), config.interpolation_scale),
        weights_(read_weights(reader, config, segment, patches_)) {}

  void check_latents(const Shape& latents) const override {
    patches_.check_latents(layout().place, latents);
  }
  [[nodiscard]] std::int64_t rows_at_once(const Shape& latents,
                                          DeviceKind kind) const override {
    return models::rows_at_once(config_.grid().num_tokens(latents), kind);
  }

  /// The prompt's keys and values are most of what is kept: 39 MB for 300
  /// tokens of a PixArt-Sigma in bf16. Only tokens that are no padding have
  /// some.
  void prepare(ExecContext& ctx, const Condition& condition,
               Prepared& prepared) const override {
    const ConditionTensor& prompt = checked_prompt(config_, condition);
    prepared.memory = ctx.empty(
        {segment().end - segment().begin, prompt.length, 2 * config_.width()},
        compute());
    const Workspace::Scope scope(ctx.workspace());
    const Tensor caption = project(ctx, prompt);  // [1, L, D]
    for (int i = segment().begin; i < segment().end; ++i) {
      const std::int64_t index = i - segment().begin;
      fetch_prepared(ctx, i);
      prepared.prompt.push_back(prepared.memory.slice(index, index + 1));
      kernels::linear(ctx, caption, block(i).cross_key_value, Activation::none,
                      prepared.prompt.back());  // [1, L, 2D]
      ctx.tick(1);
    }
  }

  [[nodiscard]] std::int64_t columns(int stage) const override {
    const int parts = stage == 0 ? 0 : stage > num_blocks() ? 2 : kAdalnColumns;
    return parts * config_.width();
  }
  [[nodiscard]] std::int64_t table_width() const override {
    return (kAdalnColumns + 2) * config_.width();
  }

  void fill_table(ExecContext& ctx,
                  std::span<const TableRow> rows) const override {
    const auto count = static_cast<std::int64_t>(rows.size());
    const std::int64_t width = config_.width();
    const Tensor embedding =
        embed_timesteps(ctx, rows, {.frequencies = kFrequencies},
                        weights_.timestep_1, weights_.timestep_2);  // [R, 1, D]
    Tensor activated = ctx.workspace().take(embedding.shape(), compute());
    kernels::activate(ctx, embedding, Activation::silu, activated);
    Tensor six = ctx.workspace().take({count, 1, 6 * width}, DType::f32);
    kernels::linear(ctx, activated, weights_.six, Activation::none,
                    six);  // [R, 1, 6D]
    put_columns(ctx, six, rows, 0);
    put_columns(ctx, embedding, rows, 6 * width);
    put_columns(ctx, embedding, rows, 7 * width);
  }

  void modulate(ExecContext& ctx, std::span<const Tensor> rows, int begin,
                int end, Tensor& modulation) const override {
    const std::int64_t width = config_.width();
    const std::int64_t first = columns_between(own_stages().begin, begin);
    const Tensor learned =
        weights_.tables.slice(first, first + modulation.dim(1));
    // The learned tables first, then the timestep's part on top.
    kernels::gather(ctx, std::vector<Tensor>(rows.size(), learned), modulation);
    const std::int64_t blocks =
        std::min(end, num_blocks() + 1) - std::max(begin, 1);
    const std::int64_t split = blocks * kAdalnColumns * width;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Tensor row = modulation.item(static_cast<std::int64_t>(i));
      if (blocks > 0) {
        const Workspace::Scope scope(ctx.workspace());
        Tensor repeated =
            ctx.workspace().take({blocks, kAdalnColumns * width}, DType::f32);
        kernels::gather(
            ctx,
            std::vector<Tensor>(static_cast<std::size_t>(blocks),
                                rows[i].slice(0, kAdalnColumns * width)),
            repeated);
        Tensor target = row.slice(0, split);
        kernels::add(ctx, repeated.reshape({split}), target);
      }
      if (end > num_blocks() + 1) {
        Tensor target = row.slice(split, split + 2 * width);
        kernels::add(ctx, rows[i].slice(6 * width, 8 * width), target);
      }
    }
  }

  void run(Pass& pass, int stage, State& state) const override {
    if (stage == 0) {
      return patches_.embed(pass, weights_.patch, state);
    }
    const Columns mod = pass.mod(stage, config_.width());
    if (stage > num_blocks()) {
      return patches_.finish(pass, mod, weights_.proj_out);
    }
    const Block& block = this->block(stage - 1);
    const AdalnShape shape = config_.block_shape();
    const Tensor& x = state.streams[0].x;
    const Workspace::Scope scope(pass.workspace());
    BlockBuffers buffers(pass, shape, x);
    add_self_attention(pass, shape, block, mod, config_.norm_eps, buffers);
    add_cross_attention(pass, stage - 1, x, buffers);
    add_feed_forward(pass, shape, block, mod, config_.norm_eps, buffers);
  }

 private:
  [[nodiscard]] const Block& block(int index) const {
    return weights_.blocks[static_cast<std::size_t>(index - segment().begin)];
  }

  /// The prompt's valid tokens as the blocks see them: [1, L, D], in the
  /// workspace.
  [[nodiscard]] Tensor project(ExecContext& ctx,
                               const ConditionTensor& prompt) const {
    const Shape shape{1, prompt.length, config_.width()};
    const Tensor x =
        in_compute_type(ctx, prompt.tensor.slice(0, prompt.length), compute());
    Tensor hidden = ctx.workspace().take(shape, compute());
    kernels::linear(ctx, x, weights_.caption_1, Activation::gelu_tanh,
                    hidden);  // [1, L, D]
    Tensor caption = ctx.workspace().take(shape, compute());
    kernels::linear(ctx, hidden, weights_.caption_2, Activation::none,
                    caption);  // [1, L, D]
    return caption;
  }

  /// x += CrossAttention(x, prompts), without a norm.
  void add_cross_attention(Pass& pass, int index, const Tensor& x,
                           BlockBuffers& buffers) const {
    const Block& block = this->block(index);
    pass.settle();
    if (compute() != DType::f32) {
      kernels::convert(pass.ctx(), x, buffers.normed);  // [B, N, D]
    }
    Tensor queries = buffers.quarter(0);
    kernels::linear(pass.ctx(), compute() == DType::f32 ? x : buffers.normed,
                    block.cross_query, Activation::none, queries,
                    pass.whole());  // [B, N, D]
    Tensor attended = buffers.quarter(1);
    pass.attend_prompt(queries,
                       static_cast<std::size_t>(index - segment().begin),
                       config_.num_attention_heads, config_.attention_head_dim,
                       attended);  // [B, N, D]
    pass.residual().add_linear(pass.ctx(), attended, block.cross_out,
                               pass.whole());
  }

  PixArtConfig config_;
  PatchEmbedding patches_;
  Weights weights_;
};

class Description final
    : public DescriptionOf<Description, PixArtConfig, PixArt> {
 public:
  using DescriptionOf::DescriptionOf;
  static void set_blocks(PixArtConfig& config, int blocks) {
    config.num_layers = blocks;
  }

  [[nodiscard]] Shape nearest_latents(const Shape& wanted) const override {
    return config().grid().nearest_latents(wanted);
  }
  void check_condition(const Condition& condition) const override {
    (void)checked_prompt(config(), condition);
  }
  [[nodiscard]] std::int64_t prompt_width() const override {
    return config().caption_channels;
  }
  [[nodiscard]] Condition any_condition(
      const PictureIds& /*ids*/) const override {
    Tensor embeds({kPromptTokens, config().caption_channels}, DType::f32);
    fill_normal({}, embeds);
    Condition condition;
    condition.add(kPrompt, std::move(embeds));
    return condition;
  }
  [[nodiscard]] NetworkFacts facts() const override {
    return {.blocks = config().num_layers,
            .width = config().width(),
            .heads = config().num_attention_heads,
            .tokens = config().grid().num_tokens(latent_shape()),
            .caption_width = config().caption_channels};
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
    info.branch_order = BranchOrder::uncond_cond;
  }
};

}  // namespace
}  // namespace pixart

std::unique_ptr<NetworkDescription> describe(const PixArtConfig& config) {
  return std::make_unique<pixart::Description>(config);
}

extern constinit const DenoiserRow kPixArt =
    network_row<pixart::Description, parse_pixart_config>();

}  // namespace troupe::models

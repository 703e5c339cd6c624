#include "models/unet/unet.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/activation.h"
#include "kernels/conv2d.h"
#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "kernels/core/noise.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/image_part.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/patchify.h"
#include "models/layers/prenorm_block.h"
#include "models/layers/prompt_tensors.h"
#include "models/layers/resnet.h"
#include "models/layers/timestep_embedding.h"
#include "models/network/description_of.h"
#include "models/network/pass.h"
#include "models/unet/unet_layout.h"

// B rows of a batch, R rows of a timestep table, N pixels of an image, n of
// them on this rank, C channels, L tokens of a prompt, E width of the
// timestep's embedding.

namespace troupe::models {
namespace unet {
namespace {

using kernels::Activation;
using kernels::ImagePart;
using Kind = UNetUnit::Kind;

constexpr const char* kPrompt = "prompt_embeds";
constexpr const char* kPooled = "pooled";
constexpr const char* kSizeIds = "size_ids";
/// What the pipelines of Stable Diffusion give.
constexpr std::int64_t kPromptTokens = 77;
constexpr double kMaxPeriod = 10000.0;
constexpr float kTransformerNormEps = 1e-6F;  // fixed in diffusers
constexpr float kLayerNormEps = 1e-5F;
constexpr FeedForward kMlp{Activation::gelu_erf, true};
/// Latent pixels of rows that are computed together: activations of one row of
/// 64 × 64 are larger than any cache; a GPU wants more work at once.
constexpr std::int64_t kPixelsOnCpu = 4096;
constexpr std::int64_t kPixelsOnGpu = 65536;
/// Elements at whose multiples the keys and values of a block begin.
constexpr std::int64_t kAlignment = 128;

/// Errors: Errc::invalid_argument unless the tensor is there, with this shape
/// and of one of these types.
void check_vector(const Condition& condition, const char* name,
                  std::int64_t size, bool only_f32) {
  const ConditionTensor* found = condition.find(name);
  require(found != nullptr, Errc::invalid_argument, name,
          "missing: the network is conditioned on it");
  if (found->tensor.shape() != Shape{size}) {
    throw Error(Errc::invalid_argument, name,
                "got shape " + to_string(found->tensor.shape()) +
                    ", expected " + to_string(Shape{size}));
  }
  const DType dtype = found->tensor.dtype();
  const bool is_narrow = dtype == DType::bf16 || dtype == DType::f16;
  if (dtype != DType::f32 && (only_f32 || !is_narrow)) {
    throw Error(Errc::invalid_argument, name,
                "got " + std::string(to_string(dtype)) + ", expected " +
                    (only_f32 ? "f32" : "f32, bf16 or f16"));
  }
}

void check_unet_condition(const UNetConfig& config,
                          const Condition& condition) {
  const std::string taken = config.has_sizes()
                                ? "prompt_embeds, pooled and size_ids"
                                : "prompt_embeds alone";
  for (const ConditionTensor& item : condition.tensors()) {
    const bool is_known =
        item.name == kPrompt ||
        (config.has_sizes() && (item.name == kPooled || item.name == kSizeIds));
    require(is_known, Errc::invalid_argument, item.name,
            "the network does not take it: expected " + taken);
  }
  (void)checked_prompt_embeds(condition, config.cross_attention_dim);
  if (config.has_sizes()) {
    const ConditionTensor* ids = condition.find(kSizeIds);
    const bool has_score =
        ids != nullptr &&
        ids->tensor.shape() == Shape{UNetConfig::kScoredSizes};
    const std::int64_t sizes =
        has_score ? UNetConfig::kScoredSizes : UNetConfig::kSizes;
    check_vector(condition, kPooled, config.pooled_beside(sizes), false);
    check_vector(condition, kSizeIds, sizes, true);
  }
}

/// C channels, L width of the prompt.
struct TransformerBlock {
  PrenormAttention attention;
  NormWeights cross_norm;
  kernels::PackedLinear cross_query;      ///< C → C
  kernels::PackedLinear cross_key_value;  ///< L → 2C: keys, values
  kernels::PackedLinear cross_out;        ///< C → C
  PrenormMlp mlp;                         ///< gated
};

struct Transformer {
  NormWeights norm;
  kernels::PackedLinear proj_in, proj_out;  ///< C → C
  std::vector<TransformerBlock> blocks;
  /// The place of its first block's keys and values in Prepared::prompt.
  std::size_t first_prompt_block = 0;
};

struct Unit {
  std::vector<ResnetWeights> resnets;
  std::optional<Transformer> transformer;
  std::optional<kernels::PackedConv2d> sampler;
};

/// Units of a segment and what every segment needs; conv_in if unit 0 is among
/// them, and the output layers if the last one is.
struct Weights {
  kernels::PackedConv2d conv_in;
  kernels::PackedLinear time_1, time_2;    ///< time_embedding
  kernels::PackedLinear added_1, added_2;  ///< add_embedding of SDXL
  /// time_emb_proj of all residual blocks of the segment, side by side.
  kernels::PackedLinear time_shifts;
  std::vector<Unit> units;
  NormWeights norm_out;
  kernels::PackedConv2d conv_out;
};

LinearSpec maybe_conv_spec(const std::string& name, std::int64_t width) {
  LinearSpec spec = linear_spec(name, width, width);
  spec.weight.may_be_convolution = true;
  return spec;
}

TransformerBlock read_block(LayerReader& reader, const std::string& name,
                            std::int64_t width, std::int64_t prompt) {
  const AttentionSpec self = attention_spec(name + "attn1", width, false);
  const AttentionSpec cross = attention_spec(name + "attn2", width, false);
  TransformerBlock block;
  block.attention.norm = reader.norm(name + "norm1", width);
  block.attention.qkv = reader.fused({self.q, self.k, self.v});
  block.attention.out = reader.linear(self.out);
  block.cross_norm = reader.norm(name + "norm2", width);
  block.cross_query = reader.linear(cross.q);
  block.cross_key_value =
      reader.fused({linear_spec(name + "attn2.to_k", width, prompt, false),
                    linear_spec(name + "attn2.to_v", width, prompt, false)});
  block.cross_out = reader.linear(cross.out);
  block.mlp.norm = reader.norm(name + "norm3", width);
  block.mlp.up =
      reader.linear(linear_spec(name + "ff.net.0.proj", 8 * width, width));
  block.mlp.down =
      reader.linear(linear_spec(name + "ff.net.2", width, 4 * width));
  return block;
}

Transformer read_transformer(LayerReader& reader, const UNetUnit& unit,
                             std::int64_t prompt) {
  const std::string& name = unit.transformer;
  Transformer transformer;
  transformer.norm = reader.norm(name + "norm", unit.out_channels);
  transformer.proj_in =
      reader.linear(maybe_conv_spec(name + "proj_in", unit.out_channels));
  for (std::int64_t i = 0; i < unit.depth; ++i) {
    transformer.blocks.push_back(
        read_block(reader, name + block_name(i), unit.out_channels, prompt));
  }
  transformer.proj_out =
      reader.linear(maybe_conv_spec(name + "proj_out", unit.out_channels));
  return transformer;
}

Unit read_unit(LayerReader& reader, const UNetUnit& unit, std::int64_t prompt) {
  Unit weights;
  for (std::size_t i = 0; i < unit.resnets.size(); ++i) {
    weights.resnets.push_back(read_resnet(
        reader, unit.resnets[i], unit.out_channels, unit.resnet_input(i)));
    if (i == 0 && unit.depth > 0) {
      weights.transformer = read_transformer(reader, unit, prompt);
    }
  }
  if (!unit.sampler.empty()) {
    weights.sampler =
        reader.conv(unit.sampler, unit.out_channels, unit.out_channels, 3,
                    unit.kind == Kind::downsample ? 2 : 1);
  }
  return weights;
}

Weights read_weights(LayerReader& reader, const UNetConfig& config,
                     const UNetLayout& layout, SegmentRange segment) {
  const std::int64_t outer = config.levels.front().width;
  const std::int64_t time = config.time_embed_dim;
  Weights weights;
  if (segment.begin == 0) {
    weights.conv_in = reader.conv("conv_in", outer, config.in_channels, 3);
  }
  weights.time_1 =
      reader.linear(linear_spec("time_embedding.linear_1", time, outer));
  weights.time_2 =
      reader.linear(linear_spec("time_embedding.linear_2", time, time));
  if (config.has_sizes()) {
    weights.added_1 = reader.linear(
        linear_spec("add_embedding.linear_1", time, config.added_width()));
    weights.added_2 =
        reader.linear(linear_spec("add_embedding.linear_2", time, time));
  }
  std::vector<LinearSpec> shifts;
  for (int i = segment.begin; i < segment.end; ++i) {
    for (const std::string& name : layout.unit(i).resnets) {
      shifts.push_back(linear_spec(name + "time_emb_proj",
                                   layout.unit(i).out_channels, time));
    }
  }
  if (!shifts.empty()) {
    weights.time_shifts = reader.fused(shifts);
  }
  std::size_t prompt_blocks = 0;
  for (int i = segment.begin; i < segment.end; ++i) {
    reader.begin_block();
    Unit& unit = weights.units.emplace_back(
        read_unit(reader, layout.unit(i), config.cross_attention_dim));
    if (unit.transformer) {
      unit.transformer->first_prompt_block = prompt_blocks;
      prompt_blocks += unit.transformer->blocks.size();
    }
    reader.end_blocks();
  }
  if (segment.end == layout.size()) {
    weights.norm_out = reader.norm("conv_norm_out", outer);
    weights.conv_out = reader.conv("conv_out", config.out_channels, outer, 3);
  }
  return weights;
}

std::vector<Stage> stages_of(const UNetLayout& layout) {
  std::vector<Stage> stages = {{.makes_skip = true}};
  for (const UNetUnit& unit : layout.units()) {
    stages.push_back(
        {.makes_skip = unit.makes_skip(), .takes_skip = unit.kind == Kind::up});
  }
  stages.emplace_back();
  return stages;
}

/// The sides of the latents behind so many halvings.
ImagePart image_at(const Pass& pass, int halvings) {
  const UNetSides sides = UNetSides::of(pass.latent_shape()).halved(halvings);
  return ImagePart::whole(sides.height, sides.width);
}

/// A row of the timestep table is what residual blocks add to their channels,
/// the C columns of one block behind those of another.
class UNet final : public Network {
 public:
  static constexpr std::string_view kClass = "UNet2DConditionModel";
  static constexpr std::string_view kPlace = "unet";

  UNet(LayerReader& reader, const UNetConfig& config, SegmentRange segment,
       DType compute)
      : Network({.place = kPlace,
                 .segment = segment,
                 .stages = stages_of(UNetLayout(config)),
                 .streams = {{"hidden"}},
                 .out_channels = config.out_channels,
                 .compute = compute,
                 .sharding = Sharding::pixels}),
        config_(config),
        layout_(config),
        weights_(read_weights(reader, config, layout_, segment)) {}

  void check_latents(const Shape& latents) const override {
    const bool fits = latents.rank() == 3 &&
                      latents[0] == config_.in_channels && latents[1] > 0 &&
                      latents[2] > 0;
    require(fits, Errc::shape_mismatch, layout().place,
            "latents: got " + to_string(latents) + ", expected " +
                std::to_string(config_.in_channels) +
                " channels and two sides");
  }
  [[nodiscard]] std::int64_t rows_at_once(const Shape& latents,
                                          DeviceKind kind) const override {
    const std::int64_t most =
        kind == DeviceKind::cpu ? kPixelsOnCpu : kPixelsOnGpu;
    return std::max<std::int64_t>(most / UNetSides::of(latents).pixels(), 1);
  }

  void prepare(ExecContext& ctx, const Condition& condition,
               Prepared& prepared) const override {
    check_unet_condition(config_, condition);
    if (config_.has_sizes()) {
      prepared.vector = added_embedding(ctx, condition);
    }
    const ConditionTensor& prompt = *condition.find(kPrompt);
    place_key_values(ctx, prompt.length, prepared);
    const Workspace::Scope scope(ctx.workspace());
    const Tensor text =
        in_compute_type(ctx, prompt.tensor.slice(0, prompt.length), compute());
    std::size_t index = 0;
    each_block([&](const TransformerBlock& block) {
      kernels::linear(ctx, text, block.cross_key_value, Activation::none,
                      prepared.prompt[index++]);  // [1, L, 2C]
      ctx.tick(1);
    });
  }

  [[nodiscard]] std::int64_t columns(int stage) const override {
    if (stage == 0 || stage > num_blocks()) {
      return 0;
    }
    const UNetUnit& unit = layout_.unit(stage - 1);
    return unit.out_channels * std::ssize(unit.resnets);
  }

  void fill_table(ExecContext& ctx,
                  std::span<const TableRow> rows) const override {
    const auto count = static_cast<std::int64_t>(rows.size());
    const Tensor embedding =
        embed_timesteps(ctx, rows,
                        {.frequencies = config_.levels.front().width,
                         .activation = config_.activation},
                        weights_.time_1, weights_.time_2);  // [R, 1, E]
    for (std::int64_t i = 0; i < count; ++i) {
      const Tensor& added = rows[static_cast<std::size_t>(i)].prepared->vector;
      if (!added.empty()) {
        Tensor row = embedding.slice(i, i + 1);
        kernels::add(ctx, added, row);
      }
    }
    Tensor activated = ctx.workspace().take(embedding.shape(), compute());
    kernels::activate(ctx, embedding, config_.activation, activated);
    Tensor made = ctx.workspace().take(
        {count, 1, weights_.time_shifts.out_features()}, DType::f32);
    kernels::linear(ctx, activated, weights_.time_shifts, Activation::none,
                    made);  // [R, 1, W]
    put_columns(ctx, made, rows, 0);
  }

  [[nodiscard]] std::int64_t hidden_elements(const Shape& latents, int begin,
                                             int end) const override {
    const UNetSides sides = UNetSides::of(latents);
    std::int64_t most = 0;
    for (int i = std::max(begin, 1) - 1; i < std::min(end - 1, num_blocks());
         ++i) {
      const UNetUnit& unit = layout_.unit(i);
      if (!unit.makes_skip()) {
        most = std::max(most, sides.halved(unit.out_halvings()).pixels() *
                                  unit.out_channels);
      }
    }
    return most;
  }

  void run(Pass& pass, int stage, State& state) const override {
    if (stage == 0) {
      return embed(pass, state);
    }
    if (stage > num_blocks()) {
      return finish(pass, state);
    }
    const UNetUnit& unit = layout_.unit(stage - 1);
    switch (unit.kind) {
      case Kind::down:
      case Kind::downsample:
        return run_down(pass, stage, unit, state);
      case Kind::mid:
        return run_mid(pass, stage, unit, state);
      case Kind::up:
        return run_up(pass, stage, unit, state);
    }
  }

 private:
  [[nodiscard]] const Unit& weights_of(int stage) const {
    return weights_
        .units[static_cast<std::size_t>(stage - 1 - segment().begin)];
  }
  template <typename Fn>
  void each_block(const Fn& fn) const {
    for (const Unit& unit : weights_.units) {
      if (unit.transformer) {
        for (const TransformerBlock& block : unit.transformer->blocks) {
          fn(block);
        }
      }
    }
  }

  void place_key_values(ExecContext& ctx, std::int64_t tokens,
                        Prepared& prepared) const {
    std::vector<std::int64_t> begins = {0};
    each_block([&](const TransformerBlock& block) {
      const std::int64_t size = tokens * block.cross_key_value.out_features();
      begins.push_back(begins.back() +
                       (size + kAlignment - 1) / kAlignment * kAlignment);
    });
    prepared.memory = ctx.empty({begins.back()}, compute());
    std::size_t index = 0;
    each_block([&](const TransformerBlock& block) {
      const Shape shape{1, tokens, block.cross_key_value.out_features()};
      const std::int64_t begin = begins[index++];
      prepared.prompt.push_back(
          prepared.memory.slice(begin, begin + shape.num_elements())
              .reshape(shape));
    });
  }

  /// [1, 1, E] f32: the pooled prompt, then the sizes, as one row.
  [[nodiscard]] Tensor added_embedding(ExecContext& ctx,
                                       const Condition& condition) const {
    const Shape shape{1, 1, config_.time_embed_dim};
    Tensor embedding = ctx.empty(shape, DType::f32);
    const Workspace::Scope scope(ctx.workspace());
    const Tensor sizes =
        kernels::on_host(ctx, condition.find(kSizeIds)->tensor);
    const std::vector<double> ids(sizes.span<float>().begin(),
                                  sizes.span<float>().end());
    Tensor frequencies = ctx.workspace().take(
        {sizes.num_elements(), config_.size_embed_dim}, DType::f32);
    kernels::timestep_embedding(ctx, ids, 0.0, kMaxPeriod, frequencies);
    const std::int64_t pooled = config_.pooled_beside(sizes.num_elements());
    Tensor in = ctx.workspace().take({1, 1, config_.added_width()}, compute());
    const Tensor row = in.reshape({config_.added_width()});
    Tensor first = row.slice(0, pooled);
    Tensor rest = row.slice(pooled, config_.added_width());
    kernels::copy(
        ctx,
        in_compute_type(ctx, condition.find(kPooled)->tensor, compute())
            .reshape(first.shape()),
        first);
    kernels::convert(ctx, frequencies.reshape(rest.shape()), rest);
    Tensor hidden = ctx.workspace().take(shape, compute());
    kernels::linear(ctx, in, weights_.added_1, Activation::silu,
                    hidden);  // [1, 1, E]
    kernels::linear(ctx, hidden, weights_.added_2, Activation::none,
                    embedding);  // [1, 1, E]
    return embedding;
  }

  /// [B, n, C] for this rank's pixels.
  static Tensor take_pixels(Pass& pass, const ImagePart& image,
                            std::int64_t channels) {
    return pass.take(
        {pass.rows(), pass.image().own(image).pixels.size(), channels});
  }
  [[nodiscard]] GroupNormStyle style() const {
    return {config_.norm_num_groups, config_.norm_eps, config_.activation};
  }

  void embed(Pass& pass, State& state) const {
    const Tensor& latents = pass.latents;
    const ImagePart image = image_at(pass, 0);
    Tensor out = take_pixels(pass, image, config_.levels.front().width);
    const Workspace::Scope scope(pass.workspace());
    Tensor x = pass.take(
        {pass.rows(), latents.dim(2), latents.dim(3), latents.dim(1)});
    kernels::to_channels_last(pass.ctx(), latents, x);
    // Every rank has all latents.
    kernels::conv2d(
        pass.ctx(),
        x.reshape({pass.rows(), image.pixels.size(), latents.dim(1)}), image,
        weights_.conv_in, out, pass.image().own(image));
    state.streams = {{"hidden", out}};
    state.skips = {out};
  }

  void finish(Pass& pass, const State& state) const {
    const Tensor& hidden = state.streams[0].x;
    const ImagePart image = image_at(pass, 0);
    const Workspace::Scope scope(pass.workspace());
    Tensor pixels = pass.take(
        {pass.rows(), hidden.dim(1), config_.out_channels}, DType::f32);
    pass.image().norm_conv(hidden, image, weights_.norm_out, style(),
                           weights_.conv_out, pixels);
    const Tensor all = pass.image().gather(pixels, image);
    if (!all.empty()) {
      kernels::to_channels_first(
          pass.ctx(),
          all.reshape(
              {pass.rows(), image.height, image.width, config_.out_channels}),
          pass.output);
    }
  }

  void run_down(Pass& pass, int stage, const UNetUnit& unit,
                State& state) const {
    const Tensor x = state.streams[0].x;
    const ImagePart before = image_at(pass, unit.halvings);
    const ImagePart after = image_at(pass, unit.out_halvings());
    Tensor out = take_pixels(pass, after, unit.out_channels);
    if (unit.kind == Kind::downsample) {
      pass.image().conv(x, before, *weights_of(stage).sampler, after, out);
    } else {
      resnet(pass, stage, 0, x, out);
      add_transformer(pass, stage, unit, out);
    }
    state.streams[0].x = out;
    state.skips.push_back(std::move(out));
  }

  void run_mid(Pass& pass, int stage, const UNetUnit& unit,
               State& state) const {
    const Tensor x = state.streams[0].x;
    Tensor& first = pass.hidden().next({x.dim(0), x.dim(1), unit.out_channels});
    resnet(pass, stage, 0, x, first);
    add_transformer(pass, stage, unit, first);
    pass.hidden().apply(first.shape(), [&](const Tensor& from, Tensor& to) {
      resnet(pass, stage, 1, from, to);
    });
    state.streams[0].x = pass.hidden().now();
  }

  void run_up(Pass& pass, int stage, const UNetUnit& unit, State& state) const {
    const Tensor x = state.streams[0].x;
    PingPong& hidden = pass.hidden();
    Tensor& out = hidden.next({x.dim(0), x.dim(1), unit.out_channels});
    {
      const Workspace::Scope scope(pass.workspace());
      Tensor both = pass.take({x.dim(0), x.dim(1), unit.resnet_input(0)});
      kernels::concat_channels(pass.ctx(), x, state.skips.back(), both);
      resnet(pass, stage, 0, both, out);
    }
    state.skips.pop_back();
    add_transformer(pass, stage, unit, out);
    if (unit.upsamples()) {
      // To the sides of the next skip; that tensor may be in another segment.
      pass.image().upsample_conv(hidden, image_at(pass, unit.halvings),
                                 *weights_of(stage).sampler,
                                 image_at(pass, unit.out_halvings()));
    }
    state.streams[0].x = hidden.now();
  }

  void resnet(Pass& pass, int stage, int index, const Tensor& x,
              Tensor& out) const {
    const Columns mod = pass.mod(stage, out.dim(2));
    run_resnet(pass.image(),
               weights_of(stage).resnets[static_cast<std::size_t>(index)],
               style(), x, image_at(pass, layout_.unit(stage - 1).halvings),
               ChannelShift{pass.modulation(), mod.at(index)}, out);
  }

  /// x += transformer(x), if the unit has one.
  void add_transformer(Pass& pass, int stage, const UNetUnit& unit,
                       Tensor& x) const {
    if (unit.depth == 0) {
      return;
    }
    const Transformer& transformer = *weights_of(stage).transformer;
    const Workspace::Scope scope(pass.workspace());
    const ImagePart image = image_at(pass, unit.halvings);
    pass.set_tokens(image.pixels.size());
    Tensor stream = pass.take(x.shape(), DType::f32);
    {
      const Workspace::Scope inner(pass.workspace());
      Tensor normed = pass.take(x.shape());
      pass.image().norm(
          x, image, transformer.norm,
          {config_.norm_num_groups, kTransformerNormEps, Activation::none},
          normed);
      kernels::linear(pass.ctx(), normed, transformer.proj_in, Activation::none,
                      stream, pass.whole());  // [B, N, C]
    }
    for (std::size_t i = 0; i < transformer.blocks.size(); ++i) {
      const TransformerBlock& block = transformer.blocks[i];
      add_attention(pass, block.attention, unit.heads, kLayerNormEps, stream);
      add_cross_attention(pass, unit, block, transformer.first_prompt_block + i,
                          stream);
      add_mlp(pass, block.mlp, kMlp, kLayerNormEps, stream);
      pass.tick();
    }
    Tensor last = stream;
    if (compute() != DType::f32) {
      last = pass.take(x.shape());
      kernels::convert(pass.ctx(), stream, last);
    }
    Tensor projected = pass.take(x.shape());
    kernels::linear(pass.ctx(), last, transformer.proj_out, Activation::none,
                    projected, pass.whole());  // [B, N, C]
    kernels::add(pass.ctx(), projected, x);
  }

  /// x += CrossAttention(norm(x), prompts). index: in Prepared::prompt.
  static void add_cross_attention(Pass& pass, const UNetUnit& unit,
                                  const TransformerBlock& block,
                                  std::size_t index, Tensor& x) {
    const Workspace::Scope scope(pass.workspace());
    Tensor normed = pass.take(x.shape());  // later the attended values
    Tensor queries = pass.take(x.shape());
    kernels::layer_norm(pass.ctx(), x, block.cross_norm.weight,
                        block.cross_norm.bias, kLayerNormEps, normed);
    kernels::linear(pass.ctx(), normed, block.cross_query, Activation::none,
                    queries, pass.whole());  // [B, N, C]
    pass.attend_prompt(queries, index, unit.heads,
                       unit.out_channels / unit.heads, normed);  // [B, N, C]
    kernels::linear_add(pass.ctx(), normed, block.cross_out, x, pass.whole());
  }

  UNetConfig config_;
  UNetLayout layout_;
  Weights weights_;
};

class Description final : public DescriptionOf<Description, UNetConfig, UNet> {
 public:
  using DescriptionOf::DescriptionOf;
  /// Blocks differ in costs, and the last blocks need the first ones. So the
  /// network is whole, or it has every level with one layer and one transformer
  /// of each kind.
  static void set_blocks(UNetConfig& config, int blocks) {
    if (blocks >= config.num_blocks()) {
      return;
    }
    config.layers_per_block = 1;
    config.mid_depth = std::min<std::int64_t>(config.mid_depth, 1);
    for (UNetLevel& level : config.levels) {
      level.depth = std::min<std::int64_t>(level.depth, 1);
    }
    for (std::int64_t& depth : config.up_depths) {
      depth = std::min<std::int64_t>(depth, 1);
    }
  }

  [[nodiscard]] Shape nearest_latents(const Shape& wanted) const override {
    if (wanted.rank() != 3) {
      return latent_shape();
    }
    return {config().in_channels, std::max<std::int64_t>(wanted[1], 1),
            std::max<std::int64_t>(wanted[2], 1)};
  }
  void check_condition(const Condition& condition) const override {
    check_unet_condition(config(), condition);
  }
  [[nodiscard]] std::int64_t prompt_width() const override {
    return config().cross_attention_dim;
  }
  [[nodiscard]] std::int64_t pooled_width(
      const PictureIds& ids) const override {
    return config().pooled_beside(ids.aesthetic_score ? UNetConfig::kScoredSizes
                                                      : UNetConfig::kSizes);
  }
  [[nodiscard]] bool takes_sides() const override {
    return config().has_sizes();
  }
  /// As "size_ids".
  void add_sides(const PictureIds& ids, Condition& condition) const override {
    if (!config().has_sizes() || condition.find(kSizeIds) != nullptr) {
      return;
    }
    std::vector<std::int64_t> sides = {ids.original_height, ids.original_width,
                                       ids.crop_top, ids.crop_left};
    if (!ids.aesthetic_score) {
      sides.insert(sides.end(), {ids.target_height, ids.target_width});
    }
    std::vector<float> all(sides.begin(), sides.end());
    if (ids.aesthetic_score) {
      all.push_back(static_cast<float>(*ids.aesthetic_score));
    }
    Tensor sizes = Tensor::from<float>(all, {std::ssize(all)});
    condition.add(kSizeIds, std::move(sizes));
  }
  [[nodiscard]] Condition any_condition(const PictureIds& ids) const override {
    const auto random = [](const Shape& shape) {
      Tensor tensor(shape, DType::f32);
      fill_normal({}, tensor);
      return tensor;
    };
    Condition condition;
    condition.add(kPrompt,
                  random({kPromptTokens, config().cross_attention_dim}));
    if (config().has_sizes()) {
      condition.add(kPooled, random({pooled_width(ids)}));
      add_sides(ids, condition);
    }
    return condition;
  }
  [[nodiscard]] NetworkFacts facts() const override {
    const UNetLayout layout(config());
    std::int64_t transformers = 0;
    for (const UNetUnit& unit : layout.units()) {
      transformers += unit.depth;
    }
    return {.blocks = num_blocks(),
            .width = config().levels.front().width,
            .widest = config().levels.back().width,
            .levels = std::ssize(config().levels),
            .transformer_blocks = transformers,
            .caption_width = config().cross_attention_dim};
  }
  [[nodiscard]] std::string config_keys() const override {
    return unet_config_keys();
  }

 protected:
  void describe(DenoiserInfo& info) const override {
    info.out_channels = info.guided_channels = config().out_channels;
    info.branch_order = BranchOrder::uncond_cond;
  }
};

}  // namespace
}  // namespace unet

std::unique_ptr<NetworkDescription> describe(const UNetConfig& config) {
  return std::make_unique<unet::Description>(config);
}

extern constinit const DenoiserRow kUNet =
    network_row<unet::Description, parse_unet_config>();

}  // namespace troupe::models

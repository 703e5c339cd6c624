#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/activation.h"
#include "kernels/copy.h"
#include "kernels/core/noise.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/rope.h"
#include "models/files/config_fields.h"
#include "models/layers/patch_embedding.h"
#include "models/layers/prenorm_block.h"
#include "models/layers/prompt_tensors.h"
#include "models/layers/size_tables.h"
#include "models/layers/timestep_embedding.h"
#include "models/network/description_of.h"
#include "models/network/layer_reader.h"
#include "models/network/pass.h"

// A network of two streams, as FLUX and SD3 are: tokens of an image and of a
// text attend to each other, first with weights of their own (double blocks),
// then with shared ones (single blocks). Positions turn queries and keys by
// three axes: the text's index, the row and the column of a pixel. One skip
// goes from the first block to the last. Its pictures mean nothing; its
// tests hold the driver to what FLUX and SD3 need.

namespace troupe::models::two_streams {

// B rows, T tokens of a text, N of an image, D width, R rows of a table.

using kernels::Activation;

constexpr std::int64_t kChannels = 4;

struct Config {
  std::int64_t heads = 2;
  std::int64_t head_dim = 12;  ///< a multiple of 6: three axes, in pairs
  std::int64_t double_blocks = 2;
  std::int64_t single_blocks = 2;
  std::int64_t text_tokens = 7;
  std::int64_t text_width = 20;
  std::int64_t sample_size = 6;

  [[nodiscard]] std::int64_t width() const noexcept { return heads * head_dim; }
  [[nodiscard]] Shape latent_shape() const {
    return {kChannels, sample_size, sample_size};
  }
  [[nodiscard]] int num_blocks() const noexcept {
    return static_cast<int>(double_blocks + single_blocks);
  }
};

constexpr void visit_fields(auto& visit, AnyConst<Config> auto& c) {
  visit({"heads", 1, 64}, c.heads);
  visit({"head_dim", 6, 96}, c.head_dim);
  visit({"double_blocks", 1, 64}, c.double_blocks);
  visit({"single_blocks", 1, 64}, c.single_blocks);
  visit({"text_tokens", 1, 512}, c.text_tokens);
  visit({"text_width", 1, 4096}, c.text_width);
  visit({"sample_size", 1, 256}, c.sample_size);
}
static_assert(lists_all_members<Config>());

constexpr std::int64_t kFrequencies = 32;
constexpr float kEps = 1e-6F;
/// Shift, scale and gate of attention, then of the MLP.
constexpr int kParts = 6;

/// A stream's layers in a block.
struct Layers {
  kernels::PackedLinear modulation;  ///< D → 6D
  kernels::PackedLinear qkv, out;    ///< D → 3D, D → D
  Tensor norm_q, norm_k;             ///< [head_dim] f32
  kernels::PackedLinear up, down;    ///< D → 4D → D
};

struct Block {
  Layers image;
  Layers text;  ///< of a double block; a single block's are those of the image
};

inline Layers read_layers(LayerReader& reader, const std::string& name,
                          const Config& config) {
  const std::int64_t width = config.width();
  return {reader.linear(linear_spec(name + "mod", kParts * width, width)),
          reader.linear(linear_spec(name + "qkv", 3 * width, width)),
          reader.linear(linear_spec(name + "out", width, width)),
          reader.table({name + "norm_q.weight", Shape{config.head_dim}}),
          reader.table({name + "norm_k.weight", Shape{config.head_dim}}),
          reader.linear(linear_spec(name + "up", 4 * width, width)),
          reader.linear(linear_spec(name + "down", width, 4 * width))};
}

class TwoStreams final : public Network {
 public:
  static constexpr std::string_view kClass = "TwoStreams";
  static constexpr std::string_view kPlace = "two streams";

  TwoStreams(LayerReader& reader, const Config& config, SegmentRange segment,
             DType compute)
      : Network({.place = kPlace,
                 .segment = segment,
                 .stages = stages_of(config),
                 .streams = {{"hidden"}, {"text", true}},
                 .out_channels = kChannels,
                 .compute = compute,
                 .sharding = Sharding::tokens}),
        config_(config) {
    const std::int64_t width = config.width();
    if (segment.begin == 0) {
      image_in_ = reader.linear(linear_spec("image_in", width, kChannels));
      text_in_ =
          reader.linear(linear_spec("text_in", width, config.text_width));
    }
    time_1_ = reader.linear(linear_spec("time_1", width, kFrequencies));
    time_2_ = reader.linear(linear_spec("time_2", width, width));
    for (int i = segment.begin; i < segment.end; ++i) {
      const std::string name = "blocks." + std::to_string(i) + ".";
      reader.begin_block();
      Block& block = blocks_.emplace_back();
      block.image = read_layers(reader, name + "image.", config);
      if (is_double(i)) {
        block.text = read_layers(reader, name + "text.", config);
      }
      if (i + 1 == config.num_blocks()) {
        skip_ = reader.linear(linear_spec("skip", width, 2 * width));
      }
      reader.end_blocks();
    }
    if (segment.end == config.num_blocks()) {
      image_out_ = reader.linear(linear_spec("image_out", kChannels, width));
    }
  }

  void check_latents(const Shape& latents) const override {
    require(latents.rank() == 3 && latents[0] == kChannels && latents[1] > 0 &&
                latents[2] > 0,
            Errc::shape_mismatch, layout().place,
            "latents: got " + to_string(latents) + ", expected 4 channels");
  }
  [[nodiscard]] std::int64_t rows_at_once(const Shape& /*latents*/,
                                          DeviceKind /*kind*/) const override {
    return 4;
  }

  void prepare(ExecContext& ctx, const Condition& condition,
               Prepared& prepared) const override {
    const ConditionTensor& text =
        checked_prompt_embeds(condition, config_.text_width);
    require(text.length == config_.text_tokens, Errc::invalid_argument,
            "prompt_embeds", "expected a text of one length");
    if (segment().begin > 0) {
      return;
    }
    prepared.memory = ctx.empty({1, text.length, config_.width()}, DType::f32);
    const Workspace::Scope scope(ctx.workspace());
    kernels::linear(
        ctx, in_compute_type(ctx, text.tensor.slice(0, text.length), compute()),
        text_in_, Activation::none, prepared.memory);
    prepared.prompt = {prepared.memory};
  }

  [[nodiscard]] std::int64_t columns(int stage) const override {
    if (stage == 0 || stage > num_blocks()) {
      return 0;
    }
    return (is_double(stage - 1) ? 2 : 1) * kParts * config_.width();
  }

  void fill_table(ExecContext& ctx,
                  std::span<const TableRow> rows) const override {
    const Tensor embedding = embed_timesteps(
        ctx, rows, {.frequencies = kFrequencies}, time_1_, time_2_);
    Tensor activated = ctx.workspace().take(embedding.shape(), compute());
    kernels::activate(ctx, embedding, Activation::silu, activated);
    std::int64_t column = 0;
    for (const Block& block : blocks_) {
      for (const Layers* layers : {&block.image, &block.text}) {
        if (layers->modulation.out_features() > 0) {
          Tensor made = ctx.workspace().take(
              {std::ssize(rows), 1, layers->modulation.out_features()},
              DType::f32);
          kernels::linear(ctx, activated, layers->modulation, Activation::none,
                          made);  // [R, 1, 6D]
          put_columns(ctx, made, rows, column);
          column += made.dim(2);
        }
      }
    }
  }

  void run(Pass& pass, int stage, State& state) const override {
    if (stage == 0) {
      return embed(pass, state);
    }
    if (stage > num_blocks()) {
      return finish(pass, state);
    }
    const int index = stage - 1;
    const Block& block =
        blocks_[static_cast<std::size_t>(index - segment().begin)];
    // The image's tensor may be a skip: a new one takes its place.
    const Tensor before = state.streams[0].x;
    Tensor x = pass.take(before.shape(), DType::f32);
    state.streams[0].x = x;
    const Workspace::Scope scope(pass.workspace());
    if (stage == num_blocks()) {
      join_long_skip(pass, skip_, before, state.skips.back(), x);
      state.skips.pop_back();
    } else {
      kernels::copy(pass.ctx(), before, x);
    }
    const Columns mod = pass.mod(stage, config_.width());
    kernels::ResidualStream image(pass.ctx(), x, pass.modulation());
    kernels::ResidualStream& text = pass.residual(1);
    const Columns text_mod =
        is_double(index) ? Columns{mod.at(kParts), mod.width} : mod;
    const Layers& text_layers = is_double(index) ? block.text : block.image;
    const std::int64_t tokens = x.dim(1);
    const std::int64_t text_tokens = state.streams[1].x.dim(1);
    attend(pass, image, text, block.image, text_layers, mod, text_mod, tokens,
           text_tokens);
    add_mlp(pass, image, block.image, mod, tokens, pass.whole(0));
    add_mlp(pass, text, text_layers, text_mod, text_tokens, pass.whole(1));
    image.settle(pass.ctx());
    if (stage == 1) {
      state.skips.push_back(x);
    }
  }

 private:
  [[nodiscard]] static std::vector<Stage> stages_of(const Config& config) {
    std::vector<Stage> stages(static_cast<std::size_t>(config.num_blocks()) +
                              2);
    stages[1].makes_skip = true;
    stages[stages.size() - 2].takes_skip = true;
    return stages;
  }
  [[nodiscard]] bool is_double(int block) const noexcept {
    return block < config_.double_blocks;
  }

  void embed(Pass& pass, State& state) const {
    const std::int64_t tokens = pass.latent_shape()[1] * pass.latent_shape()[2];
    Tensor x =
        pass.own(pass.take({pass.rows(), tokens, config_.width()}, DType::f32));
    Tensor text = pass.own(pass.take(
        {pass.rows(), config_.text_tokens, config_.width()}, DType::f32));
    state.streams = {{"hidden", x}, {"text", text}};
    embed_patches(pass, 1, image_in_, x);
    std::vector<Tensor> texts;
    for (std::int64_t i = 0; i < pass.rows(); ++i) {
      texts.push_back(pass.own_rows(pass.prepared(i).prompt[0].item(0)));
    }
    kernels::gather(pass.ctx(), texts, text);
  }

  void finish(Pass& pass, const State& state) const {
    const Tensor& x = state.streams[0].x;
    const Workspace::Scope scope(pass.workspace());
    const Shape& latents = pass.latent_shape();
    Tensor narrow =
        pass.take_shared(latents[1] * latents[2], x.dim(2), compute());
    kernels::convert(pass.ctx(), x, narrow);
    finish_patches(pass, 1, image_out_, pass.gather(narrow));
  }

  /// Cosines or sines [tokens, head_dim / 2] of the text's or of the image's
  /// tokens: a third of the pairs for each axis.
  [[nodiscard]] Tensor angles(Pass& pass, bool is_text, bool is_sine) const {
    const Shape& latents = pass.latent_shape();
    const std::int64_t tokens =
        is_text ? config_.text_tokens : latents[1] * latents[2];
    const std::int64_t pairs = config_.head_dim / 2;
    const auto make = [&] {
      Tensor table({tokens, pairs}, DType::f32);
      for (std::int64_t i = 0; i < table.num_elements(); ++i) {
        const std::int64_t token = i / pairs;
        const std::int64_t axis = i % pairs / (pairs / 3);
        const std::int64_t position = is_text     ? (axis == 0 ? token : 0)
                                      : axis == 1 ? token / latents[2]
                                      : axis == 2 ? token % latents[2]
                                                  : 0;
        const double angle =
            static_cast<double>(position) *
            std::pow(100.0, -static_cast<double>(i % (pairs / 3)));
        table.data<float>()[i] =
            static_cast<float>(is_sine ? std::sin(angle) : std::cos(angle));
      }
      return table;
    };
    return tables_.of(
        pass.ctx(), {is_text ? 1 : 0, is_sine ? 1 : 0, latents[1], latents[2]},
        {tokens, pairs}, make);
  }

  /// The stream's queries, keys and values qkv [B, N, 3D], normed and turned.
  void project(Pass& pass, kernels::ResidualStream& stream,
               const Layers& layers, const Columns& mod, bool is_text,
               Tensor& qkv) const {
    const std::int64_t width = config_.width();
    const Workspace::Scope scope(pass.workspace());
    Tensor normed = pass.take({qkv.dim(0), qkv.dim(1), width});
    stream.layer_norm_modulate(pass.ctx(), mod.at(0), mod.at(1), kEps, normed);
    kernels::linear(pass.ctx(), normed, layers.qkv, Activation::none, qkv,
                    pass.whole(is_text ? 1 : 0));
    const Tensor cosines = pass.own_rows(angles(pass, is_text, false));
    const Tensor sines = pass.own_rows(angles(pass, is_text, true));
    kernels::HeadsView q{qkv, 0};
    kernels::HeadsView k{qkv, width};
    kernels::rms_norm_rope(pass.ctx(), layers.norm_q, cosines, sines,
                           config_.heads, config_.head_dim, kEps, q);
    kernels::rms_norm_rope(pass.ctx(), layers.norm_k, cosines, sines,
                           config_.heads, config_.head_dim, kEps, k);
  }

  void attend(Pass& pass, kernels::ResidualStream& image,
              kernels::ResidualStream& text, const Layers& image_layers,
              const Layers& text_layers, const Columns& mod,
              const Columns& text_mod, std::int64_t tokens,
              std::int64_t text_tokens) const {
    const Workspace::Scope scope(pass.workspace());
    const std::int64_t width = config_.width();
    std::vector<Tensor> qkv =
        pass.take_attended({1, 0}, config_.heads, config_.head_dim);
    project(pass, text, text_layers, text_mod, true, qkv[0]);
    project(pass, image, image_layers, mod, false, qkv[1]);
    const auto views = [&](const Tensor& of) {
      return AttentionStream{{of, 0}, {of, width}, {of, 2 * width}};
    };
    const AttentionStream streams[] = {views(qkv[0]), views(qkv[1])};
    Tensor outs[] = {pass.take({pass.rows(), text_tokens, width}),
                     pass.take({pass.rows(), tokens, width})};
    pass.attend(streams, config_.heads, config_.head_dim, outs);
    text.add_gated_linear(pass.ctx(), outs[0], text_layers.out, text_mod.at(2),
                          pass.whole(1));
    image.add_gated_linear(pass.ctx(), outs[1], image_layers.out, mod.at(2),
                           pass.whole(0));
  }

  void add_mlp(Pass& pass, kernels::ResidualStream& stream,
               const Layers& layers, const Columns& mod, std::int64_t tokens,
               const kernels::WholeItem& whole) const {
    const Workspace::Scope scope(pass.workspace());
    const std::int64_t width = config_.width();
    Tensor normed = pass.take({pass.rows(), tokens, width});
    Tensor wide = pass.take({pass.rows(), tokens, 4 * width});
    stream.layer_norm_modulate(pass.ctx(), mod.at(3), mod.at(4), kEps, normed);
    kernels::linear(pass.ctx(), normed, layers.up, Activation::gelu_tanh, wide,
                    whole);
    stream.add_gated_linear(pass.ctx(), wide, layers.down, mod.at(5), whole);
  }

  Config config_;
  kernels::PackedLinear image_in_, text_in_;  ///< C → D, text width → D
  kernels::PackedLinear time_1_, time_2_;
  std::vector<Block> blocks_;
  kernels::PackedLinear skip_;       ///< 2D → D
  kernels::PackedLinear image_out_;  ///< D → C
  SizeTables tables_;
};

class Description final
    : public DescriptionOf<Description, Config, TwoStreams> {
 public:
  using DescriptionOf::DescriptionOf;
  /// It has no other network of such blocks.
  static void set_blocks(Config& /*config*/, int /*blocks*/) {}

  [[nodiscard]] Shape nearest_latents(const Shape& wanted) const override {
    return with_channels(wanted, kChannels);
  }
  void check_condition(const Condition& condition) const override {
    (void)checked_prompt_embeds(condition, config().text_width);
  }
  [[nodiscard]] std::int64_t prompt_width() const override {
    return config().text_width;
  }
  [[nodiscard]] Condition any_condition(
      const PictureIds& /*ids*/) const override {
    Tensor embeds({config().text_tokens, config().text_width}, DType::f32);
    fill_normal({}, embeds);
    Condition condition;
    condition.add("prompt_embeds", std::move(embeds));
    return condition;
  }
  [[nodiscard]] NetworkFacts facts() const override {
    return {.blocks = num_blocks(), .width = config().width()};
  }
  [[nodiscard]] std::string config_keys() const override {
    return keys_of<Config>("");
  }

 protected:
  void describe(DenoiserInfo& info) const override {
    info.out_channels = info.guided_channels = kChannels;
    info.branch_order = BranchOrder::uncond_cond;
  }
};

inline Config parse(const Json& json) {
  Config config;
  read_fields(json, config);
  return config;
}

inline constexpr DenoiserRow kRow = network_row<Description, parse>();

}  // namespace troupe::models::two_streams

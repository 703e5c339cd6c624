#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/norm.h"
#include "kernels/patchify.h"
#include "models/layers/patch_embedding.h"
#include "models/layers/prenorm_block.h"
#include "models/network/description_of.h"
#include "models/network/pass.h"

// The U-ViT of Bao et al. 2023 (arXiv:2209.12152) with classes: blocks of a
// vision transformer with long skips. A class and the timestep are tokens.
// Source: baofff/U-ViT libs/uvit.py and eval_ldm_discrete.py.

// B rows of a batch, N patches, D width, C channels, p patch size. T = 2 + N
// tokens: the class, the timestep, the patches.

namespace troupe::models {
namespace uvit {
namespace {

constexpr float kEps = 1e-5F;
constexpr FeedForward kMlp{kernels::Activation::gelu_erf};
constexpr double kMaxPeriod = 10000.0;
constexpr std::int64_t kExtras = 2;  ///< tokens in front of the patches
/// The authors' timesteps of latents begin with 1, those of diffusers with 0.
constexpr double kFirstTimestep = 1.0;

/// The arguments of the authors' class that change its arithmetic, with its
/// defaults, under their names.
struct Config {
  std::int64_t img_size = 224;  ///< of the latents, where it is given latents
  std::int64_t patch_size = 16;
  std::int64_t in_chans = 3;
  std::int64_t embed_dim = 768;
  std::int64_t depth = 12;
  std::int64_t num_heads = 12;
  double mlp_ratio = 4.0;
  bool qkv_bias = false;
  std::int64_t num_classes = -1;  ///< with 'no class', which is the last one
  bool conv = true;               ///< a convolution behind the output layer

  [[nodiscard]] int num_skips() const { return static_cast<int>(depth / 2); }
  [[nodiscard]] int num_blocks() const { return 2 * num_skips() + 1; }
  [[nodiscard]] std::int64_t mlp_width() const {
    return static_cast<std::int64_t>(static_cast<double>(embed_dim) *
                                     mlp_ratio);
  }
  [[nodiscard]] PatchGrid grid() const {
    return {in_chans, in_chans, img_size, patch_size, true};
  }
  [[nodiscard]] Shape latent_shape() const { return grid().latent_shape(); }
};

constexpr void visit_fields(auto& visit, AnyConst<Config> auto& c) {
  visit({"img_size", 1, 65536}, c.img_size);
  visit({"patch_size", 1, 256}, c.patch_size);
  visit({"in_chans", 1, 4096}, c.in_chans);
  visit({"embed_dim", 1, 65536}, c.embed_dim);
  visit({"depth", 1, 4096}, c.depth);
  visit({"num_heads", 1, 1024}, c.num_heads);
  visit({.name = "mlp_ratio", .not_negative = true}, c.mlp_ratio);
  visit({"qkv_bias"}, c.qkv_bias);
  visit({"num_classes", -1, 100'000'000}, c.num_classes);
  visit({"conv"}, c.conv);
}
static_assert(lists_all_members<Config>());

/// Errors: Errc::corrupt_file; Errc::unsupported for another network.
Config parse(const Json& json) {
  Config config;
  read_fields(json, config);
  const ValueCheck check(json, "this U-ViT cannot be run");
  check(!json.boolean("mlp_time_embed", false), "mlp_time_embed", "false");
  check(json.boolean("skip", true), "skip", "true");
  check(!json.has("qk_scale"), "qk_scale", "null");
  check(config.num_classes >= 2, "num_classes", "2 or more, with 'no class'");
  check(config.embed_dim % config.num_heads == 0, "embed_dim",
        "a multiple of num_heads");
  check(config.mlp_ratio <= 64.0 && config.mlp_width() > 0, "mlp_ratio",
        "a positive number up to 64");
  check(config.grid().fits(config.latent_shape()), "img_size",
        "a multiple of patch_size with at most 65536 patches");
  return config;
}

struct Block {
  kernels::PackedLinear skip;  ///< 2D → D, of blocks that take one
  PrenormAttention attention;
  PrenormMlp mlp;
};

Block read_block(LayerReader& reader, const Config& config, int i) {
  const int half = config.num_skips();
  const std::string name =
      i < half    ? "in_blocks." + std::to_string(i) + "."
      : i == half ? "mid_block."
                  : "out_blocks." + std::to_string(i - half - 1) + ".";
  const std::int64_t d = config.embed_dim;
  const std::int64_t wide = config.mlp_width();
  Block block;
  if (i > half) {
    block.skip = reader.linear(linear_spec(name + "skip_linear", d, 2 * d));
  }
  block.attention.norm = reader.norm(name + "norm1", d);
  block.attention.qkv =
      reader.linear(linear_spec(name + "attn.qkv", 3 * d, d, config.qkv_bias));
  block.attention.out = reader.linear(linear_spec(name + "attn.proj", d, d));
  block.mlp.norm = reader.norm(name + "norm2", d);
  block.mlp.up = reader.linear(linear_spec(name + "mlp.fc1", wide, d));
  block.mlp.down = reader.linear(linear_spec(name + "mlp.fc2", d, wide));
  return block;
}

std::vector<Stage> stages_of(const Config& config) {
  std::vector<Stage> stages(static_cast<std::size_t>(config.num_blocks()) + 2);
  for (int i = 1; i <= config.num_skips(); ++i) {
    stages.begin()[i].makes_skip = true;
    stages.rbegin()[i].takes_skip = true;
  }
  return stages;
}

/// Tokens [begin, end) of each row of x [B, T, D].
std::vector<Tensor> tokens_of(const Tensor& x, std::int64_t begin,
                              std::int64_t end) {
  std::vector<Tensor> rows;
  for (std::int64_t i = 0; i < x.dim(0); ++i) {
    rows.push_back(x.item(i).slice(begin, end));
  }
  return rows;
}

class UVit final : public Network {
 public:
  static constexpr std::string_view kClass = "UViT";
  static constexpr std::string_view kPlace = "uvit";

  UVit(LayerReader& reader, const Config& config, SegmentRange segment,
       DType compute)
      : Network({.place = kPlace,
                 .segment = segment,
                 .stages = stages_of(config),
                 .streams = {{"hidden"}},
                 .out_channels = config.in_chans,
                 .compute = compute,
                 .sharding = Sharding::tokens}),
        config_(config),
        latents_(config.latent_shape()),
        tokens_(kExtras + config.grid().num_tokens(latents_)) {
    const std::int64_t d = config.embed_dim;
    const std::int64_t p = config.patch_size;
    const std::int64_t c = config.in_chans;
    if (segment.begin == 0) {
      positions_ = reader.table({"pos_embed", Shape{1, tokens_, d}});
      classes_ =
          reader.table({"label_emb.weight", Shape{config.num_classes, d}});
      patch_ = reader.linear({{"patch_embed.proj.weight", Shape{d, c, p, p}},
                              {"patch_embed.proj.bias", Shape{d}}});
    }
    for (int i = segment.begin; i < segment.end; ++i) {
      reader.begin_block();
      blocks_.push_back(read_block(reader, config, i));
      reader.end_blocks();
    }
    if (segment.end == num_blocks()) {
      norm_ = reader.norm("norm", d);
      decoder_ = reader.linear(linear_spec("decoder_pred", p * p * c, d));
      if (config.conv) {
        final_ = reader.conv("final_layer", c, c, 3);
      }
    }
  }

  /// Positions are learned for one size.
  void check_latents(const Shape& latents) const override {
    require(latents == latents_, Errc::shape_mismatch, layout().place,
            "latents: got " + to_string(latents) + ", expected " +
                to_string(latents_));
  }
  [[nodiscard]] std::int64_t rows_at_once(const Shape& /*latents*/,
                                          DeviceKind kind) const override {
    return models::rows_at_once(tokens_, kind);
  }
  void prepare(ExecContext& /*ctx*/, const Condition& condition,
               Prepared& prepared) const override {
    prepared.class_label =
        checked_class_label(condition, config_.num_classes - 1);
  }

  /// A row of the table is the two tokens in front of the patches.
  [[nodiscard]] std::int64_t columns(int stage) const override {
    return stage == 0 ? kExtras * config_.embed_dim : 0;
  }
  void fill_table(ExecContext& ctx,
                  std::span<const TableRow> rows) const override {
    std::vector<double> timesteps;
    for (const TableRow& row : rows) {
      timesteps.push_back(row.timestep + kFirstTimestep);
    }
    Tensor times =
        ctx.workspace().take({std::ssize(rows), config_.embed_dim}, DType::f32);
    kernels::timestep_embedding(ctx, timesteps, 0.0, kMaxPeriod, times);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Tensor parts[] = {classes_.item(rows[i].prepared->class_label),
                              times.item(static_cast<std::int64_t>(i))};
      Tensor extras = rows[i].target.reshape({kExtras, config_.embed_dim});
      kernels::gather(ctx, parts, extras);
    }
  }

  void run(Pass& pass, int stage, State& state) const override {
    if (stage == 0) {
      return embed(pass, state);
    }
    Tensor& x = state.streams[0].x;
    if (stage > num_blocks()) {
      return finish(pass, x);
    }
    const Stage& kind = layout().stages[static_cast<std::size_t>(stage)];
    const Block& block =
        blocks_[static_cast<std::size_t>(stage - 1 - segment().begin)];
    if (kind.takes_skip) {
      join_long_skip(pass, block.skip, x, state.skips.back(), x);
      state.skips.pop_back();
    } else if (stage > 1) {
      const Tensor skip = x;  // never changed again: a new tensor follows
      x = pass.take(skip.shape(), DType::f32);
      kernels::copy(pass.ctx(), skip, x);
    }
    add_attention(pass, block.attention, config_.num_heads, kEps, x);
    add_mlp(pass, block.mlp, kMlp, kEps, x);
    if (kind.makes_skip) {
      state.skips.push_back(x);
    }
  }

 private:
  void embed(Pass& pass, State& state) const {
    ExecContext& ctx = pass.ctx();
    const std::int64_t rows = pass.rows();
    const std::int64_t d = config_.embed_dim;
    Tensor x = pass.take({rows, tokens_, d}, DType::f32);
    state.streams = {{"hidden", pass.own(x)}};
    const Workspace::Scope scope(pass.workspace());
    Tensor patches = pass.take({rows, tokens_ - kExtras, d}, DType::f32);
    embed_patches(pass, config_.patch_size, patch_, patches);
    std::vector<Tensor> behind = tokens_of(x, kExtras, tokens_);
    kernels::scatter(ctx, patches, behind);
    std::vector<Tensor> in_front = tokens_of(x, 0, kExtras);
    kernels::scatter(ctx, pass.modulation().reshape({rows, kExtras, d}),
                     in_front);
    for (std::int64_t i = 0; i < rows; ++i) {
      Tensor row = x.item(i);
      kernels::add(ctx, positions_.item(0), row);
    }
  }

  void finish(Pass& pass, const Tensor& x) const {
    ExecContext& ctx = pass.ctx();
    const Workspace::Scope scope(pass.workspace());
    Tensor normed = pass.take_shared(tokens_, x.dim(2), compute());
    kernels::layer_norm(ctx, x, norm_.weight, norm_.bias, kEps, normed);
    const Tensor all = pass.gather(normed);
    if (all.empty()) {
      return;
    }
    Tensor patches = pass.take({x.dim(0), tokens_ - kExtras, x.dim(2)});
    kernels::gather(ctx, tokens_of(all, kExtras, tokens_), patches);
    finish_patches(pass, config_.patch_size, decoder_, patches);
    if (config_.conv) {
      const Shape last{x.dim(0), latents_[1], latents_[2], latents_[0]};
      Tensor in = pass.take(last);
      Tensor out = pass.take(last, DType::f32);
      kernels::to_channels_last(ctx, pass.output, in);
      kernels::conv2d(ctx, in, final_, out);
      kernels::to_channels_first(ctx, out, pass.output);
    }
  }

  Config config_;
  Shape latents_;
  std::int64_t tokens_;          ///< T
  Tensor positions_;             ///< [1, T, D] f32
  Tensor classes_;               ///< [classes, D] f32
  kernels::PackedLinear patch_;  ///< C·p·p → D
  std::vector<Block> blocks_;
  NormWeights norm_;
  kernels::PackedLinear decoder_;  ///< D → p·p·C
  kernels::PackedConv2d final_;
};

/// A boundary is "hidden" [T, D] f32, and skips like it.
class Description final : public DescriptionOf<Description, Config, UVit> {
 public:
  using DescriptionOf::DescriptionOf;
  static void set_blocks(Config& config, int blocks) {
    config.depth = std::max(blocks - 1, 1);
  }

  [[nodiscard]] Shape nearest_latents(const Shape& /*wanted*/) const override {
    return latent_shape();
  }
  [[nodiscard]] NetworkFacts facts() const override {
    return {.blocks = num_blocks(),
            .width = config().embed_dim,
            .heads = config().num_heads,
            .tokens = config().grid().num_tokens(latent_shape())};
  }
  [[nodiscard]] std::string config_keys() const override {
    return keys_of<Config>("mlp_time_embed qk_scale skip use_checkpoint");
  }

 protected:
  void describe(DenoiserInfo& info) const override {
    info.out_channels = info.guided_channels = config().in_chans;
    info.num_classes = config().num_classes - 1;
  }
};

}  // namespace
}  // namespace uvit

extern constinit const DenoiserRow kUVit =
    network_row<uvit::Description, uvit::parse>();

}  // namespace troupe::models

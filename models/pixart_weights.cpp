#include "models/pixart_weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>

#include "kernels/copy.h"
#include "kernels/core/hash.h"
#include "models/linear_loader.h"

namespace troupe::models {
namespace {

/// All that can be read, by module.
struct Specs {
  LinearSpec patch;
  LinearSpec timestep_1, timestep_2, six;
  LinearSpec caption_1, caption_2;
  TensorSpec output_table;
  LinearSpec proj_out;
};

Specs specs_of(const PixArtConfig& config) {
  const std::int64_t width = config.width();
  const std::int64_t p = config.patch_size;
  const std::string timestep = "adaln_single.emb.timestep_embedder.";
  return {{{"pos_embed.proj.weight", Shape{width, config.in_channels, p, p}},
           {"pos_embed.proj.bias", Shape{width}}},
          linear_spec(timestep + "linear_1", width, kPixArtFrequencies),
          linear_spec(timestep + "linear_2", width, width),
          linear_spec("adaln_single.linear", 6 * width, width),
          linear_spec("caption_projection.linear_1", width,
                      config.caption_channels),
          linear_spec("caption_projection.linear_2", width, width),
          {"scale_shift_table", Shape{2, width}},
          linear_spec("proj_out", p * p * config.out_channels, width)};
}

struct BlockSpec {
  TensorSpec table;
  AttentionSpec self, cross;
  LinearSpec mlp_up, mlp_down;
};

BlockSpec block_spec(const PixArtConfig& config, std::int64_t block) {
  const std::string name = block_name(block);
  const AdalnShape shape = config.block_shape();
  const std::int64_t width = config.width();
  return {{name + "scale_shift_table", Shape{6, width}},
          attention_spec(name + "attn1", width, config.attention_bias),
          attention_spec(name + "attn2", width, config.attention_bias),
          linear_spec(name + "ff.net.0.proj", shape.mlp_up_width(), width),
          linear_spec(name + "ff.net.2", width, shape.mlp_width())};
}

void append(std::vector<TensorSpec>& specs, const BlockSpec& block) {
  specs.push_back(block.table);
  for (const AttentionSpec& attention : {block.self, block.cross}) {
    append(specs, attention.q);
    append(specs, attention.k);
    append(specs, attention.v);
    append(specs, attention.out);
  }
  append(specs, block.mlp_up);
  append(specs, block.mlp_down);
}

/// Collects PixArtWeights::tables on the host.
class Tables {
 public:
  Tables(const PixArtConfig& config, SegmentRange segment)
      : width_(config.width()),
        values_(Shape{width_ * (6 * (segment.end - segment.begin) +
                                (segment.end == config.num_layers ? 2 : 0))},
                DType::f32) {}

  void add(WeightSource& source, const TensorSpec& spec) {
    const Tensor read = source.read_f32(spec);
    Tensor target = next(read.num_elements());
    std::ranges::copy(read.span<float>(), target.span<float>().begin());
  }

  [[nodiscard]] const Tensor& values() const noexcept { return values_; }

 private:
  Tensor next(std::int64_t count) {
    at_ += count;
    return values_.slice(at_ - count, at_);
  }

  std::int64_t width_;
  Tensor values_;
  std::int64_t at_ = 0;
};

/// Other pixels come of the same tensors under another configuration: every
/// field enters, in the order of the struct.
std::uint64_t hash_of(const PixArtConfig& config, std::uint64_t tensors) {
  const auto number = [](auto value) {
    return static_cast<std::uint64_t>(value);
  };
  const std::uint64_t parts[] = {
      tensors,
      number(config.num_attention_heads),
      number(config.attention_head_dim),
      number(config.in_channels),
      number(config.out_channels),
      number(config.num_layers),
      number(config.attention_bias),
      number(config.sample_size),
      number(config.patch_size),
      number(config.feed_forward.activation),
      number(config.feed_forward.gated),
      std::bit_cast<std::uint32_t>(config.norm_eps),
      std::bit_cast<std::uint64_t>(config.interpolation_scale),
      number(config.caption_channels)};
  return xxh3_64(std::as_bytes(std::span(parts)));
}

PixArtBlockWeights load_block(LinearLoader& loader, const BlockSpec& spec) {
  PixArtBlockWeights block;
  block.qkv = loader.fused(std::array{spec.self.q, spec.self.k, spec.self.v});
  block.out = loader.linear(spec.self.out);
  block.cross_query = loader.linear(spec.cross.q);
  block.cross_key_value = loader.fused(std::array{spec.cross.k, spec.cross.v});
  block.cross_out = loader.linear(spec.cross.out);
  block.mlp_up = loader.linear(spec.mlp_up);
  block.mlp_down = loader.linear(spec.mlp_down);
  return block;
}

/// Groups 2i and 2i + 1 are block i's.
void offload_block(ExecContext& ctx, PixArtWeights& weights) {
  PixArtBlockWeights& block = weights.blocks.back();
  weights.offloaded.add(
      ctx, {&block.qkv, &block.out, &block.cross_query, &block.cross_out,
            &block.mlp_up, &block.mlp_down});
  weights.offloaded.add(ctx, {&block.cross_key_value});
}

PixArtWeights load(ExecContext& ctx, LinearLoader& loader,
                   const PixArtConfig& config, SegmentRange segment,
                   WeightSource& source, WeightPlacement placement) {
  source.check(pixart_tensors(config, segment));
  const Specs specs = specs_of(config);
  PixArtWeights weights;
  weights.segment = segment;
  if (segment.begin == 0) {
    weights.patch = loader.linear(specs.patch);
  }
  weights.timestep = {loader.linear(specs.timestep_1),
                      loader.linear(specs.timestep_2),
                      loader.linear(specs.six)};
  weights.caption_1 = loader.linear(specs.caption_1);
  weights.caption_2 = loader.linear(specs.caption_2);
  Tables tables(config, segment);
  for (int i = segment.begin; i < segment.end; ++i) {
    const BlockSpec spec = block_spec(config, i);
    tables.add(source, spec.table);
    weights.blocks.push_back(load_block(loader, spec));
    if (placement == WeightPlacement::offloaded) {
      offload_block(ctx, weights);
    }
  }
  if (segment.end == config.num_layers) {
    tables.add(source, specs.output_table);
    weights.proj_out = loader.linear(specs.proj_out);
  }
  weights.tables = kernels::on_device(ctx, tables.values());
  weights.hash = hash_of(config, source.hash());
  weights.num_bytes = loader.num_bytes() + weights.tables.num_bytes();
  return weights;
}

}  // namespace

std::vector<TensorSpec> pixart_tensors(const PixArtConfig& config,
                                       SegmentRange segment) {
  const Specs all = specs_of(config);
  std::vector<TensorSpec> specs;
  if (segment.begin == 0) {
    append(specs, all.patch);
  }
  for (const LinearSpec* spec : {&all.timestep_1, &all.timestep_2, &all.six,
                                 &all.caption_1, &all.caption_2}) {
    append(specs, *spec);
  }
  for (int i = segment.begin; i < segment.end; ++i) {
    append(specs, block_spec(config, i));
  }
  if (segment.end == config.num_layers) {
    specs.push_back(all.output_table);
    append(specs, all.proj_out);
  }
  return specs;
}

PixArtWeights load_pixart_weights(ExecContext& ctx, const PixArtConfig& config,
                                  SegmentRange segment, DType compute,
                                  WeightSource& source,
                                  WeightPlacement placement) {
  LinearLoader loader(ctx, compute, source);
  PixArtWeights weights = load(ctx, loader, config, segment, source, placement);
  ctx.synchronize();  // every context of the device may read them
  return weights;
}

std::uint64_t pixart_weights_hash(ExecContext& ctx, const PixArtConfig& config,
                                  SegmentRange segment, WeightSource& source) {
  LinearLoader loader(ctx, std::nullopt, source);
  return load(ctx, loader, config, segment, source, WeightPlacement::resident)
      .hash;
}

void PixArtWeights::fetch_products(ExecContext& ctx, int index,
                                   int next) const {
  if (!offloaded.empty()) {
    offloaded.fetch(ctx, 2 * static_cast<std::size_t>(index - segment.begin),
                    2 * static_cast<std::size_t>(next - segment.begin));
  }
}

void PixArtWeights::fetch_prompt(ExecContext& ctx, int index, int next) const {
  if (!offloaded.empty()) {
    offloaded.fetch(ctx,
                    2 * static_cast<std::size_t>(index - segment.begin) + 1,
                    2 * static_cast<std::size_t>(next - segment.begin) + 1);
  }
}

}  // namespace troupe::models

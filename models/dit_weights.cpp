#include "models/dit_weights.h"

#include <array>
#include <bit>
#include <map>
#include <optional>
#include <string>

#include "kernels/copy.h"
#include "kernels/core/hash.h"
#include "models/linear_loader.h"

namespace troupe::models {
namespace {

constexpr std::int64_t kTimestepDim = 256;

struct EmbedderSpec {
  LinearSpec timestep_1, timestep_2;
  TensorSpec class_table;
};

EmbedderSpec embedder_spec(const DitConfig& config, std::int64_t block) {
  const std::string name = block_name(block) + "norm1.emb.";
  const std::int64_t width = config.width();
  return {linear_spec(name + "timestep_embedder.linear_1", width, kTimestepDim),
          linear_spec(name + "timestep_embedder.linear_2", width, width),
          {name + "class_embedder.embedding_table.weight",
           Shape{config.num_classes + 1, width}}};
}

struct BlockSpec {
  LinearSpec modulation;
  AttentionSpec attention;
  LinearSpec mlp_up, mlp_down;
  LinearSpec norm;  ///< gain and bias of the MLP's norm, if it has them
};

BlockSpec block_spec(const DitConfig& config, std::int64_t block) {
  const std::string name = block_name(block);
  const AdalnShape shape = config.block_shape();
  const std::int64_t width = config.width();
  return {linear_spec(name + "norm1.linear", 6 * width, width),
          attention_spec(name + "attn1", width, config.attention_bias),
          linear_spec(name + "ff.net.0.proj", shape.mlp_up_width(), width),
          linear_spec(name + "ff.net.2", width, shape.mlp_width()),
          {{name + "norm3.weight", Shape{width}},
           {name + "norm3.bias", Shape{width}}}};
}

LinearSpec patch_spec(const DitConfig& config) {
  const std::int64_t p = config.patch_size;
  return {{"pos_embed.proj.weight",
           Shape{config.width(), config.in_channels, p, p}},
          {"pos_embed.proj.bias", Shape{config.width()}}};
}

LinearSpec proj_out_1_spec(const DitConfig& config) {
  return linear_spec("proj_out_1", 2 * config.width(), config.width());
}

LinearSpec proj_out_2_spec(const DitConfig& config) {
  const std::int64_t p = config.patch_size;
  return linear_spec("proj_out_2", p * p * config.out_channels, config.width());
}

class Loader : public LinearLoader {
 public:
  Loader(ExecContext& ctx, const DitConfig& config,
         std::optional<DType> compute, WeightSource& source)
      : LinearLoader(ctx, compute, source), config_(config) {}

  /// (1 + scale)·(gain·x + bias) + shift is (1 + scale')·x + shift' with
  /// scale' = gain·(1 + scale) − 1 and shift' = bias·(1 + scale) + shift. Both
  /// are linear in what scale and shift are made of.
  kernels::PackedLinear modulation(const BlockSpec& spec) {
    Tensor weight = source().read_f32(spec.modulation.weight);  // [6D, D]
    Tensor bias = source().read_f32(spec.modulation.bias);      // [6D]
    const Tensor gains = source().read_f32(spec.norm.weight);   // [D]
    const Tensor biases = source().read_f32(spec.norm.bias);    // [D]
    const std::int64_t width = config_.width();
    for (std::int64_t i = 0; i < width; ++i) {
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
    return pack(weight, bias);
  }

  /// Blocks with equal tensors share one object.
  std::shared_ptr<const DitEmbedder> embedder(std::int64_t block) {
    const EmbedderSpec spec = embedder_spec(config_, block);
    Tensor parts[] = {source().read(spec.timestep_1.weight),
                      source().read(spec.timestep_1.bias),
                      source().read(spec.timestep_2.weight),
                      source().read(spec.timestep_2.bias),
                      source().read_f32(spec.class_table)};
    Xxh3Stream hash;
    for (const Tensor& part : parts) {
      hash.update(part.bytes());
    }
    auto& shared = embedders_[hash.digest()];
    if (!shared) {
      count(parts[4].num_bytes());
      shared = std::make_shared<const DitEmbedder>(
          DitEmbedder{pack(parts[0], parts[1]), pack(parts[2], parts[3]),
                      kernels::on_device(ctx(), parts[4])});
    }
    return shared;
  }

  DitBlockWeights block(std::int64_t index) {
    const BlockSpec spec = block_spec(config_, index);
    DitBlockWeights block;
    block.embedder = embedder(index);
    block.modulation = config_.norm_elementwise_affine
                           ? modulation(spec)
                           : linear(spec.modulation);
    block.qkv =
        fused(std::array{spec.attention.q, spec.attention.k, spec.attention.v});
    block.out = linear(spec.attention.out);
    block.mlp_up = linear(spec.mlp_up);
    block.mlp_down = linear(spec.mlp_down);
    return block;
  }

 private:
  const DitConfig& config_;
  std::map<std::uint64_t, std::shared_ptr<const DitEmbedder>> embedders_;
};

/// Other pixels come of the same tensors under another configuration: every
/// field enters, in the order of the struct.
std::uint64_t hash_of(const DitConfig& config, std::uint64_t tensors) {
  const auto number = [](auto value) {
    return static_cast<std::uint64_t>(value);
  };
  std::vector<std::uint64_t> parts = {
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
      number(config.num_classes),
      std::bit_cast<std::uint32_t>(config.norm_eps)};
  // Newer fields count only if set, so that older hashes stay valid.
  if (config.feed_forward.gated || config.norm_elementwise_affine) {
    parts.push_back(number(config.feed_forward.gated));
    parts.push_back(number(config.norm_elementwise_affine));
  }
  return xxh3_64(std::as_bytes(std::span(parts)));
}

void append(std::vector<TensorSpec>& specs, const EmbedderSpec& spec) {
  append(specs, spec.timestep_1);
  append(specs, spec.timestep_2);
  specs.push_back(spec.class_table);
}

}  // namespace

std::vector<TensorSpec> dit_tensors(const DitConfig& config,
                                    SegmentRange segment) {
  std::vector<TensorSpec> specs;
  if (segment.begin == 0) {
    append(specs, patch_spec(config));
  }
  for (int i = segment.begin; i < segment.end; ++i) {
    append(specs, embedder_spec(config, i));
    const BlockSpec block = block_spec(config, i);
    for (const LinearSpec& spec :
         {block.modulation, block.attention.q, block.attention.k,
          block.attention.v, block.attention.out, block.mlp_up,
          block.mlp_down}) {
      append(specs, spec);
    }
    if (config.norm_elementwise_affine) {
      append(specs, block.norm);
    }
  }
  if (segment.end == config.num_layers) {
    if (segment.begin != 0) {
      append(specs, embedder_spec(config, 0));
    }
    append(specs, proj_out_1_spec(config));
    append(specs, proj_out_2_spec(config));
  }
  return specs;
}

namespace {

/// Groups 2i and 2i + 1 are block i's.
void offload_block(ExecContext& ctx, DitWeights& weights) {
  DitBlockWeights& block = weights.blocks.back();
  weights.offloaded.add(
      ctx, {&block.qkv, &block.out, &block.mlp_up, &block.mlp_down});
  weights.offloaded.add(ctx, {&block.modulation});
}

DitWeights load(ExecContext& ctx, Loader& loader, const DitConfig& config,
                SegmentRange segment, WeightSource& source,
                WeightPlacement placement) {
  source.check(dit_tensors(config, segment));
  DitWeights weights;
  weights.segment = segment;
  if (segment.begin == 0) {
    weights.patch = loader.linear(patch_spec(config));
  }
  for (int i = segment.begin; i < segment.end; ++i) {
    weights.blocks.push_back(loader.block(i));
    if (placement == WeightPlacement::offloaded) {
      offload_block(ctx, weights);
    }
  }
  if (segment.end == config.num_layers) {
    weights.embedder_0 = segment.begin == 0 ? weights.blocks.front().embedder
                                            : loader.embedder(0);
    weights.proj_out_1 = loader.linear(proj_out_1_spec(config));
    weights.proj_out_2 = loader.linear(proj_out_2_spec(config));
  }
  weights.hash = hash_of(config, source.hash());
  weights.num_bytes = loader.num_bytes();
  return weights;
}

}  // namespace

DitWeights load_dit_weights(ExecContext& ctx, const DitConfig& config,
                            SegmentRange segment, DType compute,
                            WeightSource& source, WeightPlacement placement) {
  Loader loader(ctx, config, compute, source);
  DitWeights weights = load(ctx, loader, config, segment, source, placement);
  ctx.synchronize();  // every context of the device may read them
  return weights;
}

std::uint64_t dit_weights_hash(ExecContext& ctx, const DitConfig& config,
                               SegmentRange segment, WeightSource& source) {
  Loader loader(ctx, config, std::nullopt, source);
  return load(ctx, loader, config, segment, source, WeightPlacement::resident)
      .hash;
}

void DitWeights::fetch_products(ExecContext& ctx, int index, int next) const {
  if (!offloaded.empty()) {
    offloaded.fetch(ctx, 2 * static_cast<std::size_t>(index - segment.begin),
                    2 * static_cast<std::size_t>(next - segment.begin));
  }
}

void DitWeights::fetch_modulation(ExecContext& ctx, int index, int next) const {
  if (!offloaded.empty()) {
    offloaded.fetch(ctx,
                    2 * static_cast<std::size_t>(index - segment.begin) + 1,
                    2 * static_cast<std::size_t>(next - segment.begin) + 1);
  }
}

}  // namespace troupe::models

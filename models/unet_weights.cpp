#include "models/unet_weights.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "kernels/copy.h"
#include "kernels/core/hash.h"
#include "models/layer_reader.h"

namespace troupe::models {
namespace {

/// Other pictures come of the same tensors under another configuration: every
/// field enters, in the order of the struct.
std::uint64_t hash_of(const UNetConfig& config, std::uint64_t tensors) {
  std::vector<std::uint64_t> parts = {tensors, config.levels.size()};
  const auto add = [&](std::int64_t value) {
    parts.push_back(static_cast<std::uint64_t>(value));
  };
  for (const std::int64_t value : {config.sample_height, config.sample_width,
                                   config.in_channels, config.out_channels}) {
    add(value);
  }
  for (const UNetLevel& level : config.levels) {
    add(level.width);
    add(level.heads);
    add(level.depth);
  }
  for (const std::int64_t depth : config.up_depths) {
    add(depth);
  }
  for (const std::int64_t value :
       {config.mid_depth, config.layers_per_block,
        static_cast<std::int64_t>(config.activation), config.norm_num_groups,
        static_cast<std::int64_t>(
            std::bit_cast<std::uint32_t>(config.norm_eps)),
        config.cross_attention_dim, config.time_embed_dim, config.pooled_width,
        config.size_embed_dim}) {
    add(value);
  }
  return xxh3_64(std::as_bytes(std::span(parts)));
}

LinearSpec maybe_conv_spec(const std::string& name, std::int64_t width) {
  LinearSpec spec = linear_spec(name, width, width);
  spec.weight.may_be_convolution = true;
  return spec;
}

/// Walks over a segment in the order of its layers.
class Walker {
 public:
  Walker(const UNetConfig& config, SegmentRange segment, LayerReader& reader)
      : config_(config), layout_(config), segment_(segment), reader_(reader) {}

  UNetWeights walk() {
    UNetWeights weights;
    weights.segment = segment_;
    const std::int64_t outer = config_.levels.front().width;
    const std::int64_t time = config_.time_embed_dim;
    if (segment_.begin == 0) {
      weights.conv_in = reader_.conv("conv_in", outer, config_.in_channels, 3);
    }
    weights.time_1 =
        reader_.linear(linear_spec("time_embedding.linear_1", time, outer));
    weights.time_2 =
        reader_.linear(linear_spec("time_embedding.linear_2", time, time));
    if (config_.has_sizes()) {
      weights.added_1 = reader_.linear(
          linear_spec("add_embedding.linear_1", time, config_.added_width()));
      weights.added_2 =
          reader_.linear(linear_spec("add_embedding.linear_2", time, time));
    }
    weights.time_shifts = time_shifts();
    for (int i = segment_.begin; i < segment_.end; ++i) {
      weights.units.push_back(unit(layout_.unit(i)));
    }
    if (segment_.end == layout_.size()) {
      weights.norm_out = reader_.norm("conv_norm_out", outer);
      weights.conv_out =
          reader_.conv("conv_out", config_.out_channels, outer, 3);
    }
    return weights;
  }

 private:
  kernels::PackedLinear time_shifts() {
    std::vector<LinearSpec> layers;
    for (int i = segment_.begin; i < segment_.end; ++i) {
      const UNetUnit& unit = layout_.unit(i);
      for (const std::string& name : unit.resnets) {
        layers.push_back(linear_spec(name + "time_emb_proj", unit.out_channels,
                                     config_.time_embed_dim));
      }
    }
    return layers.empty() ? kernels::PackedLinear() : reader_.fused(layers);
  }

  UNetUnitWeights unit(const UNetUnit& unit) {
    UNetUnitWeights weights;
    weights.first_prompt_block = prompt_blocks_;
    for (std::size_t i = 0; i < unit.resnets.size(); ++i) {
      weights.resnets.push_back(reader_.resnet(
          unit.resnets[i], unit.out_channels, unit.resnet_input(i)));
      weights.shift_columns.push_back(shift_column_);
      shift_column_ += unit.out_channels;
      if (i == 0 && unit.depth > 0) {
        weights.transformer = transformer(unit);
      }
    }
    if (!unit.sampler.empty()) {
      weights.sampler =
          reader_.conv(unit.sampler, unit.out_channels, unit.out_channels, 3,
                       unit.kind == UNetUnit::Kind::downsample ? 2 : 1);
    }
    return weights;
  }

  UNetTransformer transformer(const UNetUnit& unit) {
    const std::string& name = unit.transformer;
    UNetTransformer transformer;
    transformer.norm = reader_.norm(name + "norm", unit.out_channels);
    transformer.proj_in =
        reader_.linear(maybe_conv_spec(name + "proj_in", unit.out_channels));
    for (std::int64_t i = 0; i < unit.depth; ++i) {
      transformer.blocks.push_back(
          block(name + block_name(i), unit.out_channels));
    }
    transformer.proj_out =
        reader_.linear(maybe_conv_spec(name + "proj_out", unit.out_channels));
    prompt_blocks_ += static_cast<std::size_t>(unit.depth);
    return transformer;
  }

  UNetTransformerBlock block(const std::string& name, std::int64_t width) {
    const AttentionSpec self = attention_spec(name + "attn1", width, false);
    const AttentionSpec cross = attention_spec(name + "attn2", width, false);
    const std::int64_t prompt = config_.cross_attention_dim;
    UNetTransformerBlock block;
    block.norm1 = reader_.norm(name + "norm1", width);
    block.qkv = reader_.fused({self.q, self.k, self.v});
    block.out = reader_.linear(self.out);
    block.norm2 = reader_.norm(name + "norm2", width);
    block.cross_query = reader_.linear(cross.q);
    block.cross_key_value =
        reader_.fused({linear_spec(name + "attn2.to_k", width, prompt, false),
                       linear_spec(name + "attn2.to_v", width, prompt, false)});
    block.cross_out = reader_.linear(cross.out);
    block.norm3 = reader_.norm(name + "norm3", width);
    block.mlp_up =
        reader_.linear(linear_spec(name + "ff.net.0.proj", 8 * width, width));
    block.mlp_down =
        reader_.linear(linear_spec(name + "ff.net.2", width, 4 * width));
    return block;
  }

  const UNetConfig& config_;
  UNetLayout layout_;
  SegmentRange segment_;
  LayerReader& reader_;
  std::int64_t shift_column_ = 0;
  std::size_t prompt_blocks_ = 0;
};

/// With the hash where there is a source.
UNetWeights walk(const UNetConfig& config, SegmentRange segment,
                 LayerReader reader) {
  UNetWeights weights = Walker(config, segment, reader).walk();
  if (reader.source() != nullptr) {
    weights.hash = hash_of(config, reader.source()->hash());
  }
  weights.num_bytes = reader.num_bytes();
  return weights;
}

}  // namespace

std::vector<TensorSpec> unet_tensors(const UNetConfig& config,
                                     SegmentRange segment) {
  std::vector<TensorSpec> specs;
  (void)walk(config, segment, LayerReader(specs));
  return specs;
}

UNetWeights load_unet_weights(ExecContext& ctx, const UNetConfig& config,
                              SegmentRange segment, DType compute,
                              WeightSource& source) {
  source.check(unet_tensors(config, segment));
  UNetWeights weights =
      walk(config, segment, LayerReader(ctx, compute, source));
  ctx.synchronize();  // every context of the device may read them
  return weights;
}

std::uint64_t unet_weights_hash(ExecContext& ctx, const UNetConfig& config,
                                SegmentRange segment, WeightSource& source) {
  source.check(unet_tensors(config, segment));
  return walk(config, segment, LayerReader(ctx, std::nullopt, source)).hash;
}

}  // namespace troupe::models

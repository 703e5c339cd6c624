#include "models/unet_pass.h"

#include <algorithm>
#include <utility>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/conv2d.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "models/resnet.h"

// B rows, H and W sides, N = H·W tokens, C channels.

namespace troupe::models {
namespace {

using kernels::Activation;
using Kind = UNetUnit::Kind;

constexpr float kTransformerNormEps = 1e-6F;  // fixed in diffusers
constexpr float kLayerNormEps = 1e-5F;

Shape with_last(const Tensor& like, std::int64_t channels) {
  return {like.dim(0), like.dim(1), like.dim(2), channels};
}

/// Widths C of the transformer's buffers beside its stream.
constexpr std::int64_t kTransformerWidths = 1 + 8 + 4;

/// Elements of a residual block's buffers: one tensor of the input's shape and
/// one of the output's.
std::int64_t resnet_elements(const UNetUnit& unit) {
  return unit.in_channels + unit.skip_channels + unit.out_channels;
}

}  // namespace

/// Of a transformer over [B, N, C]. Parts that are never needed together share
/// memory.
struct UNetPass::TransformerBuffers {
  Tensor stream;  ///< [B, N, C] f32, the residual stream
  Tensor normed;  ///< [B, N, C]
  Tensor wide;    ///< [B, N, 8C]: queries, keys, values; values and gates
  Tensor narrow;  ///< [B, N, 4C]: attended values; the gated ones

  [[nodiscard]] Tensor part(const Tensor& memory, std::int64_t widths) const {
    return Tensor(memory.owner(),
                  {normed.dim(0), normed.dim(1), widths * normed.dim(2)},
                  memory.dtype(), memory.device());
  }
};

UNetPassSize pass_size(const UNetLayout& layout, SegmentRange units,
                       const UNetSides& sides, DType compute) {
  UNetPassSize size;
  const auto stream =
      static_cast<std::int64_t>(sizeof(float) / size_of(compute));
  for (int i = units.begin; i < units.end; ++i) {
    const UNetUnit& unit = layout.unit(i);
    const std::int64_t here = sides.halved(unit.halvings).pixels();
    const std::int64_t out =
        sides.halved(unit.out_halvings()).pixels() * unit.out_channels;
    if (unit.makes_skip()) {
      size.skips += out;
    } else {
      size.hidden = std::max(size.hidden, out);
    }
    std::int64_t inner = resnet_elements(unit);
    if (unit.kind == Kind::up) {
      inner += unit.in_channels + unit.skip_channels;  // side by side
    }
    if (unit.depth > 0) {
      inner =
          std::max(inner, (kTransformerWidths + stream) * unit.out_channels);
    }
    size.inner = std::max(size.inner, here * inner);
  }
  return size;
}

UNetPass::UNetPass(ExecContext& ctx, const UNetConfig& config,
                   const UNetLayout& layout, const UNetWeights& weights,
                   DType compute,
                   std::span<const UNetCondition* const> conditions,
                   Tensor shifts, SegmentRange units, const UNetSides& sides)
    : ctx_(ctx),
      config_(config),
      layout_(layout),
      weights_(weights),
      compute_(compute),
      conditions_(conditions),
      shifts_(std::move(shifts)),
      sides_(sides),
      hidden_(ctx.workspace(),
              static_cast<std::int64_t>(conditions.size()) *
                  pass_size(layout, units, sides, compute).hidden,
              compute) {}

void UNetPass::run(int index, UNetState& state) {
  const UNetUnit& unit = layout_.unit(index);
  const UNetUnitWeights& weights = weights_.unit(index);
  switch (unit.kind) {
    case Kind::down:
    case Kind::downsample:
      run_down(unit, weights, state);
      break;
    case Kind::mid:
      run_mid(unit, weights, state);
      break;
    case Kind::up:
      run_up(unit, weights, state);
      break;
  }
  ctx_.tick(static_cast<std::uint64_t>(state.hidden.dim(0)));
}

void UNetPass::run_down(const UNetUnit& unit, const UNetUnitWeights& weights,
                        UNetState& state) {
  const Tensor& x = state.hidden;
  const UNetSides after = sides_.halved(unit.out_halvings());
  Tensor out = take({x.dim(0), after.height, after.width, unit.out_channels});
  if (unit.kind == Kind::downsample) {
    kernels::conv2d(ctx_, x, *weights.sampler, out);
  } else {
    resnet(weights, 0, x, out);
    add_transformer(unit, weights, out);
  }
  state.hidden = out;
  state.skips.push_back(std::move(out));
}

void UNetPass::run_mid(const UNetUnit& unit, const UNetUnitWeights& weights,
                       UNetState& state) {
  const Tensor x = state.hidden;
  Tensor& first = hidden_.next(with_last(x, unit.out_channels));
  resnet(weights, 0, x, first);
  add_transformer(unit, weights, first);
  hidden_.apply(first.shape(), [&](const Tensor& from, Tensor& to) {
    resnet(weights, 1, from, to);
  });
  state.hidden = hidden_.now();
}

void UNetPass::run_up(const UNetUnit& unit, const UNetUnitWeights& weights,
                      UNetState& state) {
  const Tensor x = state.hidden;
  Tensor& out = hidden_.next(with_last(x, unit.out_channels));
  {
    const Workspace::Scope scope(ctx_.workspace());
    Tensor both = take(with_last(x, unit.resnet_input(0)));
    kernels::concat_channels(ctx_, x, state.skips.back(), both);
    resnet(weights, 0, both, out);
  }
  state.skips.pop_back();
  add_transformer(unit, weights, out);
  if (unit.upsamples()) {
    // The sides of the next skip; the tensor may be in another segment.
    const UNetSides after = sides_.halved(unit.out_halvings());
    const Shape large{x.dim(0), after.height, after.width, unit.out_channels};
    hidden_.apply(large, [&](const Tensor& from, Tensor& to) {
      kernels::upsample_nearest2x(ctx_, from, to);
    });
    hidden_.apply(large, [&](const Tensor& from, Tensor& to) {
      kernels::conv2d(ctx_, from, *weights.sampler, to);
    });
  }
  state.hidden = hidden_.now();
}

void UNetPass::resnet(const UNetUnitWeights& weights, std::size_t index,
                      const Tensor& x, Tensor& out) {
  run_resnet(ctx_, weights.resnets[index],
             {config_.norm_num_groups, config_.norm_eps, config_.activation}, x,
             ChannelShift{shifts_, weights.shift_columns[index]}, out);
}

void UNetPass::add_transformer(const UNetUnit& unit,
                               const UNetUnitWeights& weights, Tensor& x) {
  if (!weights.transformer) {
    return;
  }
  const UNetTransformer& transformer = *weights.transformer;
  const Workspace::Scope scope(ctx_.workspace());
  const std::int64_t rows = x.dim(0);
  const std::int64_t tokens = x.dim(1) * x.dim(2);
  const std::int64_t width = unit.out_channels;
  TransformerBuffers buffers{
      .stream = ctx_.workspace().take({rows, tokens, width}, DType::f32),
      .normed = take({rows, tokens, width}),
      .wide = take({rows, tokens, 8 * width}),
      .narrow = take({rows, tokens, 4 * width})};
  Tensor normed = buffers.normed.reshape(x.shape());
  kernels::group_norm(ctx_, x, transformer.norm.weight, transformer.norm.bias,
                      config_.norm_num_groups, kTransformerNormEps,
                      Activation::none, normed);
  kernels::linear(ctx_, buffers.normed, transformer.proj_in, Activation::none,
                  buffers.stream);  // [B, N, C]
  for (std::size_t i = 0; i < transformer.blocks.size(); ++i) {
    const UNetTransformerBlock& block = transformer.blocks[i];
    add_self_attention(unit, block, buffers);
    add_cross_attention(unit, block, weights.first_prompt_block + i, buffers);
    add_feed_forward(block, buffers);
    ctx_.tick(0);
  }
  Tensor last = buffers.stream;
  if (compute_ != DType::f32) {
    kernels::convert(ctx_, buffers.stream, buffers.normed);
    last = buffers.normed;
  }
  Tensor projected = buffers.part(buffers.narrow, 1);
  kernels::linear(ctx_, last, transformer.proj_out, Activation::none,
                  projected);  // [B, N, C]
  kernels::add(ctx_, projected.reshape(x.shape()), x);
}

void UNetPass::add_self_attention(const UNetUnit& unit,
                                  const UNetTransformerBlock& block,
                                  TransformerBuffers& buffers) {
  const std::int64_t width = unit.out_channels;
  kernels::layer_norm(ctx_, buffers.stream, block.norm1.weight,
                      block.norm1.bias, kLayerNormEps, buffers.normed);
  Tensor qkv = buffers.part(buffers.wide, 3);
  kernels::linear(ctx_, buffers.normed, block.qkv, Activation::none,
                  qkv);  // [B, N, 3C]
  Tensor attended = buffers.part(buffers.narrow, 1);
  kernels::attention(ctx_, {qkv, 0}, {qkv, width}, {qkv, 2 * width}, unit.heads,
                     width / unit.heads, attended);  // [B, N, C]
  kernels::linear_add(ctx_, attended, block.out, buffers.stream);
}

void UNetPass::add_cross_attention(const UNetUnit& unit,
                                   const UNetTransformerBlock& block,
                                   std::size_t prompt_block,
                                   TransformerBuffers& buffers) {
  const std::int64_t width = unit.out_channels;
  kernels::layer_norm(ctx_, buffers.stream, block.norm2.weight,
                      block.norm2.bias, kLayerNormEps, buffers.normed);
  Tensor queries = buffers.part(buffers.wide, 1);
  kernels::linear(ctx_, buffers.normed, block.cross_query, Activation::none,
                  queries);  // [B, N, C]
  Tensor attended = buffers.part(buffers.narrow, 1);
  // Each row has keys of its own number; a call with one row has the same bits
  // in every batch.
  for (std::int64_t i = 0; i < queries.dim(0); ++i) {
    const Tensor& key_values =
        conditions_[static_cast<std::size_t>(i)]->key_values()[prompt_block];
    Tensor out = attended.slice(i, i + 1);
    kernels::attention(ctx_, {queries.slice(i, i + 1), 0}, {key_values, 0},
                       {key_values, width}, unit.heads, width / unit.heads,
                       out);  // [1, N, C]
  }
  kernels::linear_add(ctx_, attended, block.cross_out, buffers.stream);
}

void UNetPass::add_feed_forward(const UNetTransformerBlock& block,
                                TransformerBuffers& buffers) {
  kernels::layer_norm(ctx_, buffers.stream, block.norm3.weight,
                      block.norm3.bias, kLayerNormEps, buffers.normed);
  kernels::linear(ctx_, buffers.normed, block.mlp_up, Activation::none,
                  buffers.wide);  // [B, N, 8C]
  kernels::activate_gated(ctx_, buffers.wide, Activation::gelu_erf,
                          buffers.narrow);  // [B, N, 4C]
  kernels::linear_add(ctx_, buffers.narrow, block.mlp_down, buffers.stream);
}

}  // namespace troupe::models

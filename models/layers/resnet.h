#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/activation.h"
#include "kernels/conv2d.h"
#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "models/layers/norm_weights.h"
#include "models/network/layer_reader.h"

namespace troupe::models {

/// A residual block of convolutions, as UNets and autoencoders have it.
struct ResnetWeights {
  NormWeights norm1, norm2;
  kernels::PackedConv2d conv1, conv2;
  std::optional<kernels::PackedConv2d> shortcut;  ///< where channels change
};

/// How the blocks of one network are computed.
struct ResnetStyle {
  std::int64_t num_groups = 32;
  float eps = 1e-6F;
  kernels::Activation activation = kernels::Activation::silu;
};

/// What a block adds to every pixel behind its first convolution: C columns of
/// `vectors` [B, W] f32 from `column` on.
struct ChannelShift {
  Tensor vectors;
  std::int64_t column = 0;
};

/// "NAMEnorm1" and so on; `name` ends with a dot.
[[nodiscard]] ResnetWeights read_resnet(LayerReader& reader,
                                        const std::string& name,
                                        std::int64_t out, std::int64_t in);

/// out = shortcut(x) + conv2(act(norm2(conv1(act(norm1(x))) + shift))).
///
/// Shapes: x [B, H, W, I], out [B, H, W, O], channels last, both in the compute
///         type. out must not alias x.
/// Memory: workspace, two tensors: one of the shape of x, one of the shape of
/// out.
/// Source: diffusers models/resnet.py, ResnetBlock2D.
void run_resnet(ExecContext& ctx, const ResnetWeights& block,
                const ResnetStyle& style, const Tensor& x,
                const std::optional<ChannelShift>& shift, Tensor& out);

}  // namespace troupe::models

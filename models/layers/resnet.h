#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/conv2d.h"
#include "kernels/core/tensor.h"
#include "models/layers/norm_weights.h"
#include "models/network/image_pass.h"
#include "models/network/layer_reader.h"

namespace troupe::models {

/// A residual block of convolutions, as UNets and autoencoders have it.
struct ResnetWeights {
  NormWeights norm1, norm2;
  kernels::PackedConv2d conv1, conv2;
  std::optional<kernels::PackedConv2d> shortcut;  ///< where channels change
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
/// Shapes: x [B, n, I], out [B, n, O], this rank's pixels of an image with the
///         sides of `image`, both in the compute type. out must not alias x.
/// Memory: workspace, two tensors: one of the shape of x, one of the shape of
/// out.
/// Source: diffusers models/resnet.py, ResnetBlock2D.
void run_resnet(ImagePass& pass, const ResnetWeights& block,
                const GroupNormStyle& style, const Tensor& x,
                const kernels::ImagePart& image,
                const std::optional<ChannelShift>& shift, Tensor& out);

}  // namespace troupe::models

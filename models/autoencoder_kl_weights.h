#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/conv2d.h"
#include "kernels/linear.h"
#include "models/autoencoder_kl.h"

namespace troupe::models {

struct VaeNorm {
  Tensor weight, bias;  // [C] f32
};

struct VaeResnet {
  VaeNorm norm1, norm2;
  kernels::PackedConv2d conv1, conv2;
  std::optional<kernels::PackedConv2d> shortcut;
};

struct VaeAttention {
  VaeNorm norm;
  kernels::PackedLinear qkv, out;
};

struct VaeUpBlock {
  std::vector<VaeResnet> resnets;
  std::vector<VaeAttention> attentions;  ///< none, or one after each resnet
  std::optional<kernels::PackedConv2d> upsampler;
};

struct AutoencoderKlWeights {
  std::optional<kernels::PackedConv2d> post_quant;
  kernels::PackedConv2d conv_in;
  VaeResnet mid_1, mid_2;
  std::optional<VaeAttention> mid_attention;
  std::vector<VaeUpBlock> up_blocks;
  VaeNorm norm_out;
  kernels::PackedConv2d conv_out;
  std::size_t num_bytes = 0;
  std::uint64_t hash = 0;
};

/// Errors: as WeightSource.
[[nodiscard]] AutoencoderKlWeights load_autoencoder_kl_weights(
    ExecContext& ctx, const AutoencoderKlConfig& config, DType compute,
    WeightSource& source);

}  // namespace troupe::models

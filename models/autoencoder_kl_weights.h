#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/conv2d.h"
#include "kernels/linear.h"
#include "models/autoencoder_kl.h"
#include "models/resnet.h"

namespace troupe::models {

struct VaeAttention {
  NormWeights norm;
  kernels::PackedLinear qkv, out;
};

struct VaeUpBlock {
  std::vector<ResnetWeights> resnets;
  std::vector<VaeAttention> attentions;  ///< none, or one after each resnet
  std::optional<kernels::PackedConv2d> upsampler;
};

struct AutoencoderKlWeights {
  std::optional<kernels::PackedConv2d> post_quant;
  kernels::PackedConv2d conv_in;
  ResnetWeights mid_1, mid_2;
  std::optional<VaeAttention> mid_attention;
  std::vector<VaeUpBlock> up_blocks;
  NormWeights norm_out;
  kernels::PackedConv2d conv_out;
  std::size_t num_bytes = 0;
  std::uint64_t hash = 0;
};

/// Errors: as WeightSource.
[[nodiscard]] AutoencoderKlWeights load_autoencoder_kl_weights(
    ExecContext& ctx, const AutoencoderKlConfig& config, DType compute,
    WeightSource& source);

}  // namespace troupe::models

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/conv2d.h"
#include "kernels/core/context.h"
#include "kernels/linear.h"
#include "models/resnet.h"
#include "models/segment.h"
#include "models/unet_config.h"
#include "models/unet_layout.h"
#include "models/weight_source.h"

namespace troupe::models {

/// C channels, L width of the prompt.
struct UNetTransformerBlock {
  NormWeights norm1, norm2, norm3;
  kernels::PackedLinear qkv;              ///< C → 3C
  kernels::PackedLinear out;              ///< C → C
  kernels::PackedLinear cross_query;      ///< C → C
  kernels::PackedLinear cross_key_value;  ///< L → 2C: keys, values
  kernels::PackedLinear cross_out;        ///< C → C
  kernels::PackedLinear mlp_up;           ///< C → 8C: values, gates
  kernels::PackedLinear mlp_down;         ///< 4C → C
};

struct UNetTransformer {
  NormWeights norm;
  kernels::PackedLinear proj_in;   ///< C → C
  kernels::PackedLinear proj_out;  ///< C → C
  std::vector<UNetTransformerBlock> blocks;
};

/// The layers of a UNetUnit.
struct UNetUnitWeights {
  std::vector<ResnetWeights> resnets;
  /// Where each residual block's columns begin in a row of time shifts.
  std::vector<std::int64_t> shift_columns;
  std::optional<UNetTransformer> transformer;
  /// The first of its transformer blocks, counted in the segment.
  std::size_t first_prompt_block = 0;
  std::optional<kernels::PackedConv2d> sampler;
};

/// Weights of units [segment.begin, segment.end) and of what every segment
/// needs; conv_in if unit 0 is among them, and the output layers if the last
/// one is.
struct UNetWeights {
  SegmentRange segment;
  std::optional<kernels::PackedConv2d> conv_in;
  kernels::PackedLinear time_1, time_2;    ///< time_embedding
  kernels::PackedLinear added_1, added_2;  ///< add_embedding of SDXL
  /// time_emb_proj of all residual blocks of the segment, side by side.
  kernels::PackedLinear time_shifts;
  std::vector<UNetUnitWeights> units;  ///< of the segment
  std::optional<NormWeights> norm_out;
  std::optional<kernels::PackedConv2d> conv_out;
  std::uint64_t hash = 0;     ///< XXH3-64 of tensors and config
  std::size_t num_bytes = 0;  ///< as packed

  [[nodiscard]] const UNetUnitWeights& unit(int index) const {
    return units[static_cast<std::size_t>(index - segment.begin)];
  }
};

/// Every tensor that the segment needs, under its name in diffusers.
[[nodiscard]] std::vector<TensorSpec> unet_tensors(const UNetConfig& config,
                                                   SegmentRange segment);

/// Checks all tensors, then reads and packs them one after another, on ctx's
/// device. Complete on return. Errors: as WeightSource and PackedLinear.
[[nodiscard]] UNetWeights load_unet_weights(ExecContext& ctx,
                                            const UNetConfig& config,
                                            SegmentRange segment, DType compute,
                                            WeightSource& source);

/// The `hash` that load_unet_weights would give. Nothing is packed, and one
/// layer at a time is in memory. Errors: as WeightSource; Errc::interrupted.
[[nodiscard]] std::uint64_t unet_weights_hash(ExecContext& ctx,
                                              const UNetConfig& config,
                                              SegmentRange segment,
                                              WeightSource& source);

}  // namespace troupe::models

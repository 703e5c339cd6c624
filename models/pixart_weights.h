#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/linear.h"
#include "kernels/offload.h"
#include "models/adaln_block.h"
#include "models/pixart_config.h"
#include "models/placement.h"
#include "models/segment.h"
#include "models/weight_source.h"

namespace troupe::models {

struct PixArtBlockWeights : AdalnLayers {
  kernels::PackedLinear cross_query;      ///< D → D
  kernels::PackedLinear cross_out;        ///< D → D
  kernels::PackedLinear cross_key_value;  ///< D → 2D: keys, values
};

/// Width of the sinusoids that a timestep is embedded with.
inline constexpr std::int64_t kPixArtFrequencies = 256;

/// What follows from the timestep alone (adaLN-single).
struct PixArtTimestepWeights {
  kernels::PackedLinear timestep_1;  ///< 256 → D
  kernels::PackedLinear timestep_2;  ///< D → D
  kernels::PackedLinear six;         ///< D → 6D
};

/// Weights of blocks [segment.begin, segment.end) and of what every segment
/// needs; those of the patch embedding if block 0 is among them, and of the
/// output layers if the last one is.
struct PixArtWeights {
  SegmentRange segment;
  kernels::PackedLinear patch;  ///< C·p·p → D
  PixArtTimestepWeights timestep;
  kernels::PackedLinear caption_1;         ///< caption channels → D
  kernels::PackedLinear caption_2;         ///< D → D
  std::vector<PixArtBlockWeights> blocks;  ///< of the segment
  /// What PixArtConditioner adds to the timestep's part, side by side: for each
  /// block of the segment 6D, for the output layers 2D if they are here. [W]
  /// f32.
  Tensor tables;
  kernels::PackedLinear proj_out;  ///< D → p·p·C_out
  /// Offloaded blocks. Each has two groups: the matrices of `fetch_products`
  /// and that of `fetch_prompt`.
  kernels::OffloadedLayers offloaded;
  std::uint64_t hash = 0;     ///< XXH3-64 of tensors and config
  std::size_t num_bytes = 0;  ///< as packed

  /// To be called before work with the matrices of block `index` that multiply
  /// tokens is queued. Also starts to copy those of block `next`, the block of
  /// the next call. Both are numbers in the whole network. Does nothing where
  /// weights are resident.
  void fetch_products(ExecContext& ctx, int index, int next) const;
  /// The same for the matrix that makes keys and values of a prompt.
  void fetch_prompt(ExecContext& ctx, int index, int next) const;
};

/// Every tensor that the segment needs, under its name in diffusers.
[[nodiscard]] std::vector<TensorSpec> pixart_tensors(const PixArtConfig& config,
                                                     SegmentRange segment);

/// Checks all tensors, then reads and packs them one after another, on ctx's
/// device. Complete on return.
/// Errors: as WeightSource and PackedLinear.
[[nodiscard]] PixArtWeights load_pixart_weights(
    ExecContext& ctx, const PixArtConfig& config, SegmentRange segment,
    DType compute, WeightSource& source,
    WeightPlacement placement = WeightPlacement::resident);

/// The `hash` that load_pixart_weights would give. Nothing is packed, and one
/// tensor at a time is in memory. Errors: as WeightSource; Errc::interrupted.
[[nodiscard]] std::uint64_t pixart_weights_hash(ExecContext& ctx,
                                                const PixArtConfig& config,
                                                SegmentRange segment,
                                                WeightSource& source);

}  // namespace troupe::models

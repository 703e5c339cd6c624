#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/linear.h"
#include "kernels/offload.h"
#include "models/dit_config.h"
#include "models/placement.h"
#include "models/segment.h"
#include "models/weight_source.h"

namespace troupe::models {

/// Embeds (timestep, class). Files store an embedder for each block; in
/// published checkpoints all embedders are equal, and one is held.
struct DitEmbedder {
  kernels::PackedLinear timestep_1;  ///< 256 → D
  kernels::PackedLinear timestep_2;  ///< D → D
  Tensor class_table;                ///< [classes + 1, D] f32
};

struct DitBlockWeights : AdalnLayers {
  std::shared_ptr<const DitEmbedder> embedder;
  /// D → 6D. Gain and bias of an affine norm are folded in.
  kernels::PackedLinear modulation;
};

/// Weights of blocks [segment.begin, segment.end), of the patch embedding if
/// block 0 is among them, and of the output layers if the last one is.
struct DitWeights {
  SegmentRange segment;
  kernels::PackedLinear patch;                    ///< C·p·p → D
  std::vector<DitBlockWeights> blocks;            ///< of the segment
  std::shared_ptr<const DitEmbedder> embedder_0;  ///< block 0's, for the output
  kernels::PackedLinear proj_out_1;               ///< D → 2D: shift, scale
  kernels::PackedLinear proj_out_2;               ///< D → p·p·C_out
  /// Offloaded blocks. Each has two groups: the matrices of `fetch_products`
  /// and those of `fetch_modulation`.
  kernels::OffloadedLayers offloaded;
  std::uint64_t hash = 0;     ///< XXH3-64 of tensors and config
  std::size_t num_bytes = 0;  ///< as packed

  /// To be called before work with the matrices of block `index` that multiply
  /// tokens is queued. Also starts to copy those of block `next`, the block of
  /// the next call. Both are numbers in the whole network. Does nothing where
  /// weights are resident.
  void fetch_products(ExecContext& ctx, int index, int next) const;
  /// The same for the matrices that make shift, scale and gate.
  void fetch_modulation(ExecContext& ctx, int index, int next) const;
};

/// Every tensor that the segment needs, under its name in diffusers.
[[nodiscard]] std::vector<TensorSpec> dit_tensors(const DitConfig& config,
                                                  SegmentRange segment);

/// Checks all tensors, then reads and packs them one after another, on ctx's
/// device. Complete on return.
/// Errors: as WeightSource and PackedLinear.
[[nodiscard]] DitWeights load_dit_weights(
    ExecContext& ctx, const DitConfig& config, SegmentRange segment,
    DType compute, WeightSource& source,
    WeightPlacement placement = WeightPlacement::resident);

/// The `hash` that load_dit_weights would give. Nothing is packed, and one
/// tensor at a time is in memory. Errors: as WeightSource; Errc::interrupted.
[[nodiscard]] std::uint64_t dit_weights_hash(ExecContext& ctx,
                                             const DitConfig& config,
                                             SegmentRange segment,
                                             WeightSource& source);

}  // namespace troupe::models

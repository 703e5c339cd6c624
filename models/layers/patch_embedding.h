#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/linear.h"
#include "models/layers/patch_grid.h"
#include "models/layers/size_tables.h"
#include "models/network/layer_reader.h"
#include "models/network/pass.h"

namespace troupe::models {

/// Tokens x [B, N, D] f32 of the pass's latents: all of them, or this rank's.
/// layer: C·p·p → D, p the patch size.
void embed_patches(Pass& pass, std::int64_t patch_size,
                   const kernels::PackedLinear& layer, Tensor& x);
/// The pass's output from all tokens [B, N, D] in the compute type; from none:
/// another rank's. layer: D → p·p·C.
void finish_patches(Pass& pass, std::int64_t patch_size,
                    const kernels::PackedLinear& layer, const Tensor& tokens);

/// From latents to the tokens of a residual stream, and back: what DiT and
/// PixArt have in common before and behind their blocks. Positions are
/// two-dimensional sinusoids, scaled to the range of the size that the network
/// was trained with. Thread: any, one ctx per thread.
/// Source: diffusers models/embeddings.py, PatchEmbed.
class PatchEmbedding {
 public:
  PatchEmbedding(const PatchGrid& grid, std::int64_t width,
                 double interpolation)
      : grid_(grid), width_(width), interpolation_(interpolation) {}

  /// The layer "pos_embed.proj", C·p·p → D. Counts the positions.
  [[nodiscard]] kernels::PackedLinear read(LayerReader& reader) const;

  /// Errors: Errc::shape_mismatch, at `place`.
  void check_latents(std::string_view place, const Shape& latents) const;
  [[nodiscard]] const PatchGrid& grid() const noexcept { return grid_; }

  /// The stream "hidden_states" [B, N, D] f32 of the pass's latents.
  void embed(Pass& pass, const kernels::PackedLinear& layer,
             State& state) const;
  /// The pass's output from that stream. mod: shift and scale of the norm;
  /// layer: D → p·p·C.
  void finish(Pass& pass, const Columns& mod,
              const kernels::PackedLinear& layer) const;

 private:
  /// The position table [N, D] f32 for latents of this shape, on ctx's device.
  [[nodiscard]] Tensor positions_of(ExecContext& ctx,
                                    const Shape& latents) const;

  PatchGrid grid_;
  std::int64_t width_;
  double interpolation_;
  SizeTables tables_;
};

}  // namespace troupe::models

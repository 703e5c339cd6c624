#pragma once

#include <cstdint>

#include "models/vae/autoencoder_kl.h"

// Decoding in overlapping tiles, so that a large picture takes the memory of a
// tile. Group norms and the middle block's attention see only one tile, so the
// picture differs from a whole decode. Tiles, overlap and blending are those of
// diffusers' AutoencoderKL.tiled_decode (0.42): a tile has the side of what the
// decoder was trained with, a quarter of it overlaps.

namespace troupe::models {

/// Latents a side of which a quarter can overlap: tiles of one latent would
/// have no overlap, and diffusers does not go on from the first.
inline constexpr std::int64_t kSmallestTile = 2;

/// Whether latents [C, …, h, w] are larger than a tile. Others are decoded
/// whole, with the bytes of AutoencoderKl::decode.
[[nodiscard]] bool exceeds_tile(const Shape& latents, std::int64_t side);

/// AutoencoderKl::decode in tiles of `side` × `side` latents. Tiles begin at
/// every multiple of ⌊¾ side⌋; those at the far edges end with the latents.
/// Where a tile overlaps the one above or left of it, pixel i of the n that
/// they share is (1 − i/n) · theirs + i/n · its own, first downwards, then to
/// the right. One tile after the other is computed. The bytes follow from
/// latents, side and the execution class alone.
///
/// If `side` is no multiple of four, tiles share a little more than a quarter;
/// diffusers would then give a picture of another size.
/// Errors: those of AutoencoderKl::decode; Errc::invalid_argument for a side
/// below kSmallestTile.
void decode_in_tiles(ImagePass& layers, const AutoencoderKl& decoder,
                     const Tensor& latents, std::int64_t side, Tensor& out);
/// The same, by one rank.
void decode_in_tiles(ExecContext& ctx, const AutoencoderKl& decoder,
                     const Tensor& latents, std::int64_t side, Tensor& out);

/// autoencoder_kl_costs for latents [C, …, h, w] in tiles of `side` latents, or
/// whole if that is 0. Operations: what overlaps counts as often as it is
/// computed. Memory: a tile, the picture, and the edges of tiles that wait for
/// their neighbours.
[[nodiscard]] DecodeCosts tiled_costs(const AutoencoderKlConfig& config,
                                      DType compute, const Shape& latents,
                                      std::int64_t side);

}  // namespace troupe::models

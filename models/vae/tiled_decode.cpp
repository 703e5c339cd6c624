#include "models/vae/tiled_decode.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/copy.h"
#include "kernels/core/error.h"

// C channels, h and w sides in latents, H and W in pixels.

namespace troupe::models {
namespace {

/// Where the tiles of a side of latents lie.
struct Tiles {
  std::int64_t length = 0;  ///< of the latents
  std::int64_t side = 0;    ///< of a tile

  /// From one tile to the next: what does not overlap.
  [[nodiscard]] std::int64_t stride() const noexcept { return 3 * side / 4; }
  [[nodiscard]] std::int64_t overlap() const noexcept {
    return side - stride();
  }
  [[nodiscard]] std::int64_t count() const noexcept {
    return (length + stride() - 1) / stride();
  }
  [[nodiscard]] std::int64_t begin(std::int64_t tile) const noexcept {
    return tile * stride();
  }
  /// Of one tile.
  [[nodiscard]] std::int64_t extent(std::int64_t tile) const noexcept {
    return std::min(side, length - begin(tile));
  }
};

/// Of a picture: down, and to the right.
struct Grid {
  Grid(const Shape& latents, std::int64_t side)
      : down{LatentGeometry::of(latents).height, side},
        across{LatentGeometry::of(latents).width, side} {}

  Tiles down, across;
};

struct Place {
  std::int64_t row = 0;
  std::int64_t column = 0;
};

/// Copies a rectangle of `rows` and `columns` of every channel.
void copy_rectangle(const Tensor& from, Place at, std::int64_t rows,
                    std::int64_t columns, Tensor& to, Place there) {
  for (std::int64_t c = 0; c < from.dim(0); ++c) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* source = from.data<float>() +
                            (c * from.dim(1) + at.row + row) * from.dim(2) +
                            at.column;
      float* target = to.data<float>() +
                      (c * to.dim(1) + there.row + row) * to.dim(2) +
                      there.column;
      std::copy_n(source, columns, target);
    }
  }
}

/// A rectangle of every channel, as a tensor of its own.
Tensor cut_out(const Tensor& from, Place at, std::int64_t rows,
               std::int64_t columns) {
  Tensor part({from.dim(0), rows, columns}, DType::f32);
  copy_rectangle(from, at, rows, columns, part, {});
  return part;
}

/// The last rows or columns of a tile, at most `most`, for its neighbour.
Tensor last_rows(const Tensor& tile, std::int64_t most) {
  const std::int64_t rows = std::min(most, tile.dim(1));
  return cut_out(tile, {tile.dim(1) - rows, 0}, rows, tile.dim(2));
}
Tensor last_columns(const Tensor& tile, std::int64_t most) {
  const std::int64_t columns = std::min(most, tile.dim(2));
  return cut_out(tile, {0, tile.dim(2) - columns}, tile.dim(1), columns);
}

enum class Direction : std::uint8_t { down, right };

/// Lets the end of the tile before pass into the beginning of `tile`. Each
/// product and the sum are rounded separately, as in torch.
void blend(const Tensor& before, Direction direction, Tensor& tile) {
  const bool is_down = direction == Direction::down;
  const std::size_t axis = is_down ? 1 : 2;
  const std::int64_t shared = std::min(before.dim(axis), tile.dim(axis));
  const std::int64_t rows = is_down ? shared : tile.dim(1);
  const std::int64_t columns = is_down ? tile.dim(2) : shared;
  const std::int64_t skipped = before.dim(axis) - shared;
  for (std::int64_t c = 0; c < tile.dim(0); ++c) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* theirs =
          before.data<float>() +
          (c * before.dim(1) + row + (is_down ? skipped : 0)) * before.dim(2) +
          (is_down ? 0 : skipped);
      float* own = tile.data<float>() + (c * tile.dim(1) + row) * tile.dim(2);
      for (std::int64_t column = 0; column < columns; ++column) {
        const double part = static_cast<double>(is_down ? row : column) /
                            static_cast<double>(shared);
        const float faded = theirs[column] * static_cast<float>(1 - part);
        own[column] = faded + own[column] * static_cast<float>(part);
      }
    }
  }
}

}  // namespace

bool exceeds_tile(const Shape& latents, std::int64_t side) {
  const auto its = LatentGeometry::of(latents);
  return its.height > side || its.width > side;
}

void decode_in_tiles(ExecContext& ctx, const AutoencoderKl& decoder,
                     const Tensor& latents, std::int64_t side, Tensor& out) {
  ImagePass alone(ctx);
  decode_in_tiles(alone, decoder, latents, side, out);
}

void decode_in_tiles(ImagePass& layers, const AutoencoderKl& decoder,
                     const Tensor& latents, std::int64_t side, Tensor& out) {
  require(side >= kSmallestTile, Errc::invalid_argument, "autoencoder",
          "tiles of " + std::to_string(side) + " latents, expected at least " +
              std::to_string(kSmallestTile));
  decoder.check(latents, out);
  if (!exceeds_tile(latents.shape(), side)) {
    return decoder.decode(layers, latents, out);
  }
  const Grid grid(latents.shape(), side);
  const std::int64_t scale = decoder.config().scale();
  const std::int64_t overlap = grid.down.overlap() * scale;
  ExecContext& ctx = layers.ctx();
  const Tensor on_host = kernels::on_host(ctx, latents);
  // Blending is nothing beside decoding: the host does it on every device.
  const bool is_here = out.device().kind == DeviceKind::cpu;
  Tensor picture = is_here ? out : Tensor(out.shape(), DType::f32);
  // Of the tiles of the row above, and of the tile to the left.
  std::vector<Tensor> above(static_cast<std::size_t>(grid.across.count()));
  for (std::int64_t i = 0; i < grid.down.count(); ++i) {
    Tensor left;
    for (std::int64_t j = 0; j < grid.across.count(); ++j) {
      const Place at{grid.down.begin(i), grid.across.begin(j)};
      const std::int64_t rows = grid.down.extent(i);
      const std::int64_t columns = grid.across.extent(j);
      Tensor tile({out.dim(0), rows * scale, columns * scale}, DType::f32);
      decoder.decode(layers, cut_out(on_host, at, rows, columns), tile);
      if (!layers.is_first()) {
        continue;  // rank 0 has the tile
      }
      Tensor& upper = above[static_cast<std::size_t>(j)];
      if (i > 0) {
        blend(upper, Direction::down, tile);
      }
      if (j > 0) {
        blend(left, Direction::right, tile);
      }
      const std::int64_t shown = grid.down.stride() * scale;
      copy_rectangle(tile, {}, std::min(shown, tile.dim(1)),
                     std::min(shown, tile.dim(2)), picture,
                     {at.row * scale, at.column * scale});
      upper = last_rows(tile, overlap);
      left = last_columns(tile, overlap);
    }
  }
  if (!is_here && layers.is_first()) {
    kernels::copy(ctx, picture, out);
  }
}

DecodeCosts tiled_costs(const AutoencoderKlConfig& config, DType compute,
                        const Shape& latents, std::int64_t side) {
  const auto its = LatentGeometry::of(latents);
  if (side == 0) {
    return autoencoder_kl_costs(config, compute, its.height, its.width);
  }
  const Grid grid(latents, side);
  // There may be many tiles of the same size.
  std::map<std::pair<std::int64_t, std::int64_t>, DecodeCosts> known;
  const auto of_tile = [&](std::int64_t i, std::int64_t j) {
    const std::pair sides{grid.down.extent(i), grid.across.extent(j)};
    const auto found = known.find(sides);
    return found != known.end()
               ? found->second
               : known
                     .emplace(sides,
                              autoencoder_kl_costs(config, compute, sides.first,
                                                   sides.second))
                     .first->second;
  };
  DecodeCosts costs = of_tile(0, 0);  // the largest
  costs.flops = 0;
  for (std::int64_t i = 0; i < grid.down.count(); ++i) {
    for (std::int64_t j = 0; j < grid.across.count(); ++j) {
      costs.flops += of_tile(i, j).flops;
    }
  }
  const std::int64_t scale = config.scale();
  const std::int64_t rows = grid.down.extent(0);
  const std::int64_t columns = grid.across.extent(0);
  // One edge for each column of tiles, the left neighbour's edge, and the edge
  // in progress.
  const std::int64_t edges = (grid.across.count() + 2) *
                             std::min(grid.down.overlap(), rows) *
                             std::max(rows, columns) * scale;
  costs.bytes +=
      static_cast<std::uint64_t>((its.height * its.width * scale + edges) *
                                 scale * config.out_channels * 4);
  return costs;
}

}  // namespace troupe::models

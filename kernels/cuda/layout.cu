#include <algorithm>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/units.cuh"

namespace troupe::kernels::cuda {
namespace {

/// How planes [C, P] are cut into tiles of channels × pixels that fit shared
/// memory. With up to 32 channels a tile has all channels, so that its rows [P,
/// C] are contiguous.
struct Tiles {
  static constexpr int kMostElements = 1024;

  std::int64_t channels;
  std::int64_t pixels;
  int width = 1;   ///< channels of a tile
  int length = 1;  ///< pixels of a tile
  /// Elements from channel to channel in shared memory: odd, so that threads
  /// that go along the channels meet different banks.
  int pitch = 1;
  std::int64_t across = 0;  ///< tiles along the channels
  std::int64_t down = 0;    ///< tiles along the pixels

  Tiles(std::int64_t channels_of_item, std::int64_t pixels_of_item)
      : channels(channels_of_item), pixels(pixels_of_item) {
    width = static_cast<int>(std::min<std::int64_t>(channels, 32));
    length = kMostElements / width / 32 * 32;
    pitch = length + 1;
    across = (channels + width - 1) / width;
    down = (pixels + length - 1) / length;
  }
};

/// Planes [B, C, P] to rows [B, P, C] or back, a tile per block: both sides are
/// read and written along the lines in which they lie.
template <typename From, typename To, bool kToRows>
struct Transpose {
  static constexpr const char* kName =
      kToRows ? "to_channels_last" : "to_channels_first";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = true;
  static constexpr int kEach = Tiles::kMostElements / kThreads;

  Tiles tiles;
  const From* x;
  To* out;

  /// The first element of a block's tile.
  struct Corner {
    std::int64_t item;
    std::int64_t channel;
    std::int64_t pixel;
  };
  TROUPE_DEVICE Corner corner(std::int64_t block) const {
    const std::int64_t column = block / tiles.down;
    const std::int64_t item = column / tiles.across;
    return {item, (column - item * tiles.across) * tiles.width,
            (block - column * tiles.down) * tiles.length};
  }

  /// Element `index` of a tile in the order of one side's memory.
  struct Place {
    bool is_inside;
    int in_tile;
    std::int64_t in_memory;
  };
  template <bool kRows>
  TROUPE_DEVICE Place place(const Corner& corner, int index) const {
    const int step = kRows ? tiles.width : tiles.length;
    const int outer = index / step;
    const int inner = index - outer * step;
    const int c = kRows ? inner : outer;
    const int p = kRows ? outer : inner;
    const std::int64_t channel = corner.channel + c;
    const std::int64_t pixel = corner.pixel + p;
    return {
        index < tiles.width * tiles.length && channel < tiles.channels &&
            pixel < tiles.pixels,
        c * tiles.pitch + p,
        kRows
            ? (corner.item * tiles.pixels + pixel) * tiles.channels + channel
            : (corner.item * tiles.channels + channel) * tiles.pixels + pixel};
  }

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    auto* const tile = lane.template shared<float>();
    const Corner first = corner(lane.block());
    float ahead[kEach];
    TROUPE_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const Place from = place<!kToRows>(first, lane.thread() + i * kThreads);
      ahead[i] = from.is_inside ? to_float(x[from.in_memory]) : 0.0F;
    }
    TROUPE_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const Place from = place<!kToRows>(first, lane.thread() + i * kThreads);
      if (from.is_inside) {
        tile[from.in_tile] = ahead[i];
      }
    }
    lane.sync();
    TROUPE_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const Place to = place<kToRows>(first, lane.thread() + i * kThreads);
      if (to.is_inside) {
        out[to.in_memory] = from_float<To>(tile[to.in_tile]);
      }
    }
  }
};

template <bool kToRows>
void transpose(ExecContext& ctx, std::int64_t channels, std::int64_t pixels,
               const Tensor& x, Tensor& out) {
  Backend& backend = Backend::of(ctx);
  if (x.empty()) {
    return;
  }
  const Tiles tiles(channels, pixels);
  with_element(x.dtype(), [&](auto from) {
    with_element(out.dtype(), [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      using Kernel = Transpose<From, To, kToRows>;
      launch(
          backend, Kernel{tiles, x.data<From>(), out.data<To>()},
          {x.dim(0) * tiles.across * tiles.down}, Kernel::kThreads,
          static_cast<std::size_t>(tiles.width * tiles.pitch) * sizeof(float));
    });
  });
}

}  // namespace

void to_channels_last(ExecContext& ctx, const Tensor& x, Tensor& out) {
  transpose<true>(ctx, x.dim(1), x.dim(2) * x.dim(3), x, out);
}

void to_channels_first(ExecContext& ctx, const Tensor& x, Tensor& out) {
  transpose<false>(ctx, out.dim(1), out.dim(2) * out.dim(3), x, out);
}

}  // namespace troupe::kernels::cuda

#include <type_traits>

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/row_plan.cuh"
#include "kernels/row_blocks.h"

// Ours: cuDNN names a group norm that it does not compute (CUDNN_GROUP_NORM,
// "unsupported" in the header of 9.26), and the activation behind it would be
// another pass.

namespace troupe::kernels::cuda {
namespace {

constexpr int kBlock = 256;

/// Channels last, as the kernels cut it. Units of channels lie across a block's
/// threads, the threads that remain take further pixels. Which pixels one sum
/// covers follows from the image and the channel count alone.
struct Image {
  // Enough sums of one item for any GPU to be full with one item.
  static constexpr std::int64_t kMaxParts = kMostBlocks;

  std::int64_t items;
  int pixels;
  int channels;
  int groups;
  int units;        ///< of channels, over all tiles
  int tile;         ///< units of a block at once
  int lanes;        ///< pixels of a block at once
  int part_pixels;  ///< of one partial sum
  int parts;        ///< of one item

  /// `whole`: pixels of the image that these pixels are some of.
  Image(std::int64_t num_items, std::int64_t num_pixels, std::int64_t whole,
        std::int64_t num_channels, std::int64_t num_groups, int unit)
      : items(num_items),
        pixels(static_cast<int>(num_pixels)),
        channels(static_cast<int>(num_channels)),
        groups(static_cast<int>(num_groups)),
        units((channels + unit - 1) / unit),
        tile(std::min(units, kBlock)),
        lanes(kBlock / tile),
        part_pixels(static_cast<int>(shard_block(whole, kGroupNormPart))),
        parts((pixels + part_pixels - 1) / part_pixels) {}
};

/// Σ x and Σ x² in double of every group over one part of an item's pixels.
/// Laid out as [item, part, group, sum or squares].
template <typename T, bool kAligned>
struct GroupMoments {
  static constexpr const char* kName = "group_norm moments";
  static constexpr int kThreads = kBlock;
  static constexpr bool kCooperates = true;
  static constexpr int kUnit = kPerLoad<T>;
  /// Loads in flight. Four of 16-bit types would take up to 120 registers of a
  /// thread, two take at most 79 (sm_90a).
  static constexpr int kAhead = kUnit == 8 ? 2 : 4;
  static constexpr std::size_t kSharedBytes =
      std::size_t{2} * kUnit * kBlock * sizeof(double);
  static constexpr RowAccess kAccess =
      kAligned ? RowAccess::held : RowAccess::single;

  Image image;
  const T* x;
  double* moments;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const auto block = static_cast<std::uint32_t>(lane.block());
    const std::uint32_t item = block / static_cast<std::uint32_t>(image.parts);
    const auto part = static_cast<int>(
        block - item * static_cast<std::uint32_t>(image.parts));
    const int begin = part * image.part_pixels;
    const int pixels = image.pixels - begin < image.part_pixels
                           ? image.pixels - begin
                           : image.part_pixels;
    const T* from =
        x + (item * std::int64_t{image.pixels} + begin) * image.channels;
    double* to = moments + std::int64_t{block} * image.groups * 2;
    for (int tile = 0; tile < image.units; tile += image.tile) {
      sum_tile(lane, from, pixels, tile);
      fold_tile(lane, tile, to);
    }
  }

  /// Per thread: its unit's channels over every lanes-th pixel, into shared
  /// memory as [sum or square, place in the unit, thread].
  template <typename Lane>
  TROUPE_DEVICE void sum_tile(Lane& lane, const T* from, int pixels,
                              int tile) const {
    const int pixel_lane = lane.thread() / image.tile;
    const int unit = tile + lane.thread() - pixel_lane * image.tile;
    const int count = image.channels - unit * kUnit;
    double sums[kUnit] = {};
    double squares[kUnit] = {};
    if (pixel_lane < image.lanes && count > 0) {
      const T* column = from + unit * kUnit;
      const auto step = std::int64_t{image.lanes} * image.channels;
      const T* at = column + std::int64_t{pixel_lane} * image.channels;
      Unit<T, kUnit> ahead[kAhead] = {};
      int pixel = pixel_lane;
      const auto fetch = [&] {
        TROUPE_UNROLL
        for (int i = 0; i < kAhead; ++i) {
          if (pixel + i * image.lanes < pixels) {
            ahead[i] = load_row<kAccess, kUnit>(at + i * step, count);
          }
        }
      };
      // The next batch of pixels loads while the current batch is summed. If a
      // batch were summed right after its loads, the code of nvcc 13 would wait
      // for each load.
      fetch();
      while (pixel < pixels) {
        Unit<T, kUnit> now[kAhead];
        TROUPE_UNROLL
        for (int i = 0; i < kAhead; ++i) {
          now[i] = ahead[i];
        }
        const int here = pixel;
        pixel += kAhead * image.lanes;
        at += kAhead * step;
        fetch();
        TROUPE_UNROLL
        for (int i = 0; i < kAhead; ++i) {
          if (here + i * image.lanes < pixels) {
            take(now[i], sums, squares);
          }
        }
      }
    }
    auto* shared = lane.template shared<double>();
    TROUPE_UNROLL
    for (int j = 0; j < kUnit; ++j) {
      shared[j * kBlock + lane.thread()] = sums[j];
      shared[(kUnit + j) * kBlock + lane.thread()] = squares[j];
    }
    lane.sync();
  }

  static TROUPE_DEVICE void take(const Unit<T, kUnit>& unit,
                                 double (&sums)[kUnit],
                                 double (&squares)[kUnit]) {
    TROUPE_UNROLL
    for (int j = 0; j < kUnit; ++j) {
      const double value = to_float(unit.values[j]);
      sums[j] += value;
      squares[j] = multiply_add(value, value, squares[j]);
    }
  }

  /// Pixel lanes in order, then a group's channels in order.
  template <typename Lane>
  TROUPE_DEVICE void fold_tile(Lane& lane, int tile, double* to) const {
    auto* shared = lane.template shared<double>();
    for (int i = lane.thread(); i < 2 * kUnit * image.tile; i += kBlock) {
      const int row = i / image.tile;
      double* lanes = shared + row * kBlock + i - row * image.tile;
      double sum = lanes[0];
      for (int k = 1; k < image.lanes; ++k) {
        sum += lanes[k * image.tile];
      }
      lanes[0] = sum;
    }
    lane.sync();
    const int width = image.channels / image.groups;
    const int begin = tile * kUnit;
    const int tile_end = (tile + image.tile) * kUnit;
    const int end = tile_end < image.channels ? tile_end : image.channels;
    for (int group = begin / width + lane.thread(); group * width < end;
         group += kBlock) {
      const bool continues = group * width < begin;
      const int last = (group + 1) * width < end ? (group + 1) * width : end;
      double sum = continues ? to[2 * group] : 0.0;
      double squares = continues ? to[2 * group + 1] : 0.0;
      for (int c = continues ? begin : group * width; c < last; ++c) {
        const int place = (c - begin) % kUnit * kBlock + (c - begin) / kUnit;
        sum += shared[place];
        squares += shared[kUnit * kBlock + place];
      }
      to[2 * group] = sum;
      to[2 * group + 1] = squares;
    }
    lane.sync();
  }
};

/// A factor and an offset per channel from the moments, a warp per (item,
/// group): normalising is then out = x · factor + offset.
struct GroupFold {
  static constexpr const char* kName = "group_norm fold";
  static constexpr int kThreads = 128;
  static constexpr bool kCooperates = true;

  Image image;
  const double* moments;
  const float* weight;
  const float* bias;
  float eps;
  float* folded;  ///< [items, 2, channels]

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const int place = lane.thread() % Lane::kWarp;
    const std::int64_t team =
        lane.block() * (kThreads / Lane::kWarp) + lane.thread() / Lane::kWarp;
    if (team >= image.items * image.groups) {
      return;  // the whole warp
    }
    const std::int64_t item = team / image.groups;
    const auto group = static_cast<int>(team - item * image.groups);
    double sum = 0;
    double squares = 0;
    for (int part = place; part < image.parts; part += Lane::kWarp) {
      const double* from =
          moments + ((item * image.parts + part) * image.groups + group) * 2;
      sum += from[0];
      squares += from[1];
    }
    TROUPE_UNROLL
    for (int mask = Lane::kWarp / 2; mask > 0; mask /= 2) {
      sum += lane.shuffle_xor(sum, mask);
      squares += lane.shuffle_xor(squares, mask);
    }
    const int width = image.channels / image.groups;
    const double count = static_cast<double>(image.pixels) * width;
    const double mean = sum / count;
    const double variance = squares / count - mean * mean;
    const double inverse =
        1.0 / sqrt((variance > 0 ? variance : 0.0) + static_cast<double>(eps));
    float* factor = folded + item * 2 * image.channels;
    float* offset = factor + image.channels;
    for (int i = place; i < width; i += Lane::kWarp) {
      const int c = group * width + i;
      const double scaled = static_cast<double>(weight[c]) * inverse;
      factor[c] = static_cast<float>(scaled);
      offset[c] =
          static_cast<float>(static_cast<double>(bias[c]) - mean * scaled);
    }
  }
};

/// out = activation(x · factor + offset). A thread keeps its channels' numbers
/// and goes down a few pixels, whose loads are in flight together.
template <typename T, bool kAligned>
struct GroupApply {
  static constexpr const char* kName = "group_norm apply";
  static constexpr int kThreads = kBlock;
  static constexpr bool kCooperates = false;
  static constexpr int kUnit = kPerLoad<T>;
  static constexpr int kAhead = 3;
  static constexpr bool kCoarse = sizeof(T) == 2;
  static constexpr RowAccess kAccess =
      kAligned ? RowAccess::held : RowAccess::single;

  Image image;
  std::uint32_t tiles;
  std::uint32_t steps;  ///< blocks of one item and tile
  const T* x;
  const float* folded;
  Activation activation;
  T* out;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const auto block = static_cast<std::uint32_t>(lane.block());
    const std::uint32_t whole = block / steps;
    const std::uint32_t step = block - whole * steps;
    const std::uint32_t item = whole / tiles;
    const auto tile = static_cast<int>(whole - item * tiles);
    const int pixel_lane = lane.thread() / image.tile;
    const int channel =
        (tile * image.tile + lane.thread() - pixel_lane * image.tile) * kUnit;
    const int count = image.channels - channel;
    if (pixel_lane >= image.lanes || count <= 0) {
      return;
    }
    const auto pixel =
        static_cast<int>(step) * kAhead * image.lanes + pixel_lane;
    const int ahead = image.pixels - pixel;
    const std::int64_t first =
        (item * std::int64_t{image.pixels} + pixel) * image.channels + channel;
    const auto apart = std::int64_t{image.lanes} * image.channels;
    Unit<T, kUnit> units[kAhead];
    TROUPE_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      if (i * image.lanes < ahead) {
        units[i] = load_row<kAccess, kUnit>(x + first + i * apart, count);
      }
    }
    const float* factor = folded + item * 2 * image.channels + channel;
    const auto factors = load_shared<kAccess, kUnit>(factor, count);
    const auto offsets =
        load_shared<kAccess, kUnit>(factor + image.channels, count);
    TROUPE_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      if (i * image.lanes < ahead) {
        Floats<kUnit> values = floats(units[i]);
        TROUPE_UNROLL
        for (int j = 0; j < kUnit; ++j) {
          values.values[j] = multiply_add(values.values[j], factors.values[j],
                                          offsets.values[j]);
        }
        activate_all<kCoarse>(values.values, activation);
        store_row<kAccess>(rounded<T>(values), out + first + i * apart, count);
      }
    }
  }
};

template <typename T, bool kAligned>
void queue_moments(Backend& backend, const Image& image, const T* x,
                   double* sums) {
  using Sums = GroupMoments<T, kAligned>;
  launch(backend, Sums{image, x, sums}, {image.items * image.parts}, kBlock,
         Sums::kSharedBytes);
}

/// Factors and offsets of the items of `whole`, from all their moments.
Tensor queue_fold(ExecContext& ctx, const Image& whole, const double* sums,
                  const Tensor& weight, const Tensor& bias, float eps) {
  Tensor folded =
      ctx.workspace().take({whole.items, 2, whole.channels}, DType::f32);
  const GroupFold fold{whole,
                       sums,
                       weight.data<float>(),
                       bias.data<float>(),
                       eps,
                       folded.data<float>()};
  launch(Backend::of(ctx), fold,
         {blocks_for(whole.items * whole.groups, GroupFold::kThreads / 32)});
  return folded;
}

template <typename T, bool kAligned>
void queue_apply(Backend& backend, const Image& image, const T* x,
                 const Tensor& folded, Activation activation, T* out) {
  using Apply = GroupApply<T, kAligned>;
  const std::int64_t tiles = blocks_for(image.units, image.tile);
  const std::int64_t steps =
      blocks_for(image.pixels, Apply::kAhead * image.lanes);
  launch(backend,
         Apply{image, static_cast<std::uint32_t>(tiles),
               static_cast<std::uint32_t>(steps), x, folded.data<float>(),
               activation, out},
         {image.items * tiles * steps});
}

/// Indices inside an image and numbers of blocks are 32 bits wide.
void check_sizes(std::int64_t items, std::int64_t pixels,
                 std::int64_t channels) {
  constexpr std::int64_t kMaxChannels = std::int64_t{1} << 20U;
  constexpr std::int64_t kLimit = std::int64_t{1} << 30U;
  require(channels < kMaxChannels && pixels < kLimit &&
              items < kLimit / pixels && items < kLimit / Image::kMaxParts,
          Errc::unsupported, "cuda",
          "too large for one kernel: got " +
              to_string(Shape{items, pixels, channels}));
}

double* sums_in(const Tensor& moments) {
  // Nothing is written through an input.
  return reinterpret_cast<double*>(
      const_cast<std::byte*>(moments.bytes().data()));
}

/// Calls fn(element, aligned, unit): the element type of x, and whether the
/// rows of x and out are aligned to units of so many.
template <typename Fn>
void with_loads(const Tensor& x, const Tensor& out, std::int64_t channels,
                const Fn& fn) {
  with_element(x.dtype(), [&]<typename T>(T element) {
    constexpr int kUnit = kPerLoad<T>;
    if (fits<kUnit>(x.data<T>(), channels) &&
        fits<kUnit>(out.data<T>(), channels)) {
      fn(element, std::true_type(), kUnit);
    } else {
      fn(element, std::false_type(), kUnit);
    }
  });
}

}  // namespace

void group_norm(ExecContext& ctx, const Tensor& x, const Tensor& weight,
                const Tensor& bias, std::int64_t num_groups, float eps,
                Activation activation, Tensor& out) {
  if (x.empty()) {
    return;
  }
  const std::int64_t pixels = x.dim(1) * x.dim(2);
  check_sizes(x.dim(0), pixels, x.dim(3));
  with_loads(x, out, x.dim(3), [&]<typename T>(T, auto aligned, int unit) {
    constexpr bool kAligned = decltype(aligned)::value;
    const Image image(x.dim(0), pixels, pixels, x.dim(3), num_groups, unit);
    Backend& backend = Backend::of(ctx);
    const Workspace::Scope scope(ctx.workspace());
    const Tensor moments = ctx.workspace().take(
        {image.items, image.parts, image.groups, 2, 8}, DType::u8);
    queue_moments<T, kAligned>(backend, image, x.data<T>(), sums_in(moments));
    const Tensor folded =
        queue_fold(ctx, image, sums_in(moments), weight, bias, eps);
    queue_apply<T, kAligned>(backend, image, x.data<T>(), folded, activation,
                             out.data<T>());
  });
}

void group_moments(ExecContext& ctx, const Tensor& x, std::int64_t pixels,
                   std::int64_t num_groups, Tensor& moments) {
  if (x.empty()) {
    return;
  }
  check_sizes(1, pixels, x.dim(1));
  with_loads(x, x, x.dim(1), [&]<typename T>(T, auto aligned, int unit) {
    const Image image(1, x.dim(0), pixels, x.dim(1), num_groups, unit);
    queue_moments<T, decltype(aligned)::value>(Backend::of(ctx), image,
                                               x.data<T>(), sums_in(moments));
  });
}

void group_normalise(ExecContext& ctx, const Tensor& x, const Tensor& moments,
                     std::int64_t pixels, const Tensor& weight,
                     const Tensor& bias, std::int64_t num_groups, float eps,
                     Activation activation, Tensor& out) {
  if (x.empty()) {
    return;
  }
  check_sizes(1, pixels, x.dim(1));
  const Workspace::Scope scope(ctx.workspace());
  with_loads(x, out, x.dim(1), [&]<typename T>(T, auto aligned, int unit) {
    const Image whole(1, pixels, pixels, x.dim(1), num_groups, unit);
    const Image image(1, x.dim(0), pixels, x.dim(1), num_groups, unit);
    const Tensor folded =
        queue_fold(ctx, whole, sums_in(moments), weight, bias, eps);
    queue_apply<T, decltype(aligned)::value>(Backend::of(ctx), image,
                                             x.data<T>(), folded, activation,
                                             out.data<T>());
  });
}

}  // namespace troupe::kernels::cuda

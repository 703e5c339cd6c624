#include "kernels/cuda/ops.h"
#include "kernels/cuda/units.cuh"

namespace troupe::kernels::cuda {
namespace {

/// Hands kUnits of the `count` units at `from` to store(unit, index): a thread
/// loads all of its units before it stores the first.
template <int N, int kThreads, int kUnits, typename Lane, typename Store>
TROUPE_DEVICE void move_units(Lane& lane, const std::uint8_t* from,
                              std::int64_t count, const Store& store) {
  const std::int64_t first = lane.block() * (kThreads * kUnits) + lane.thread();
  Bytes<N> units[kUnits];
  TROUPE_UNROLL
  for (int i = 0; i < kUnits; ++i) {
    if (first + i * kThreads < count) {
      units[i] = load_bytes<N>(from + (first + i * kThreads) * N);
    }
  }
  TROUPE_UNROLL
  for (int i = 0; i < kUnits; ++i) {
    if (first + i * kThreads < count) {
      store(units[i], first + i * kThreads);
    }
  }
}

/// Images [B, H, W, C]: every pixel becomes four, or fewer at the last row and
/// column of an odd result. A thread moves N bytes of a few pixels, reads them
/// once and writes them up to four times.
template <int N>
struct UpsampleNearest2x {
  static constexpr const char* kName = "upsample_nearest2x";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;
  static constexpr int kUnits = 2;  // loads of a thread in flight together

  const std::uint8_t* x;
  std::uint8_t* out;
  std::int64_t count;   ///< units of x
  std::int64_t height;  ///< of x, in pixels
  std::int64_t width;
  std::int64_t out_height;
  std::int64_t out_width;
  std::int64_t units_per_pixel;  ///< of N bytes

  TROUPE_DEVICE void store_four(const Bytes<N>& unit,
                                std::int64_t index) const {
    const std::int64_t pixel = index / units_per_pixel;
    const std::int64_t row = pixel / width;
    const std::int64_t column = pixel - row * width;
    const std::int64_t line = out_width * units_per_pixel;  // units of out
    std::int64_t to_row = 2 * row;
    bool has_below = true;
    if (out_height < 2 * height) {  // items lie closer; spares a division
      const std::int64_t item = row / height;
      to_row -= item;
      has_below = row - item * height + 1 < height;
    }
    const std::int64_t at = to_row * line + 2 * column * units_per_pixel +
                            (index - pixel * units_per_pixel);
    const bool has_right = 2 * column + 1 < out_width;
    store_bytes<N>(unit, out + at * N);
    if (has_right) {
      store_bytes<N>(unit, out + (at + units_per_pixel) * N);
    }
    if (has_below) {
      store_bytes<N>(unit, out + (at + line) * N);
    }
    if (has_right && has_below) {
      store_bytes<N>(unit, out + (at + line + units_per_pixel) * N);
    }
  }

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    move_units<N, kThreads, kUnits>(
        lane, x, count, [&](const Bytes<N>& unit, std::int64_t index) {
          store_four(unit, index);
        });
  }
};

/// Copies rows of `width` units to every `pitch`th unit of `out`.
template <int N>
struct CopyColumns {
  static constexpr const char* kName = "concat_channels";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;
  static constexpr int kUnits = 4;  // loads of a thread in flight together

  const std::uint8_t* from;
  std::uint8_t* out;
  std::int64_t count;  ///< units of `from`
  std::int64_t width;  ///< units of a row
  std::int64_t pitch;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    move_units<N, kThreads, kUnits>(
        lane, from, count, [&](const Bytes<N>& unit, std::int64_t index) {
          const std::int64_t row = index / width;
          store_bytes<N>(unit, out + (row * pitch + (index - row * width)) * N);
        });
  }
};

}  // namespace

void concat_channels(ExecContext& ctx, const Tensor& a, const Tensor& b,
                     Tensor& out) {
  Backend& backend = Backend::of(ctx);
  const std::size_t last = a.shape().rank() - 1;
  const auto size = static_cast<std::int64_t>(size_of(a.dtype()));
  const std::int64_t a_bytes = a.dim(last) * size;
  const std::int64_t pitch = a_bytes + b.dim(last) * size;
  auto* to = reinterpret_cast<std::uint8_t*>(out.bytes().data());
  for (const Tensor* part : {&a, &b}) {
    if (part->empty()) {
      continue;
    }
    auto* target = part == &a ? to : to + a_bytes;
    const auto* from =
        reinterpret_cast<const std::uint8_t*>(part->bytes().data());
    const std::int64_t width = part->dim(last) * size;
    with_unit_bytes(
        reinterpret_cast<std::uintptr_t>(from) |
            reinterpret_cast<std::uintptr_t>(target) |
            static_cast<std::uintptr_t>(width) |
            static_cast<std::uintptr_t>(pitch),
        [&](auto bytes) {
          constexpr int kBytes = decltype(bytes)::value;
          using Kernel = CopyColumns<kBytes>;
          const Kernel kernel{
              from, target,
              static_cast<std::int64_t>(part->num_bytes()) / kBytes,
              width / kBytes, pitch / kBytes};
          launch(backend, kernel,
                 {blocks_for(kernel.count, Kernel::kThreads * Kernel::kUnits)});
        });
  }
}

void upsample_nearest2x(ExecContext& ctx, const Tensor& x, Tensor& out) {
  Backend& backend = Backend::of(ctx);
  if (x.empty()) {
    return;
  }
  const auto* from = reinterpret_cast<const std::uint8_t*>(x.bytes().data());
  auto* to = reinterpret_cast<std::uint8_t*>(out.bytes().data());
  const auto pixel_bytes =
      x.dim(3) * static_cast<std::int64_t>(size_of(x.dtype()));
  with_unit_bytes(
      reinterpret_cast<std::uintptr_t>(from) |
          reinterpret_cast<std::uintptr_t>(to) |
          static_cast<std::uintptr_t>(pixel_bytes),
      [&](auto bytes) {
        constexpr int kBytes = decltype(bytes)::value;
        using Kernel = UpsampleNearest2x<kBytes>;
        const Kernel kernel{from,
                            to,
                            static_cast<std::int64_t>(x.num_bytes()) / kBytes,
                            x.dim(1),
                            x.dim(2),
                            out.dim(1),
                            out.dim(2),
                            pixel_bytes / kBytes};
        launch(backend, kernel,
               {blocks_for(kernel.count, Kernel::kThreads * Kernel::kUnits)});
      });
}

}  // namespace troupe::kernels::cuda

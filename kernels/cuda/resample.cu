#include "kernels/cuda/ops.h"
#include "kernels/cuda/units.cuh"

namespace troupe::kernels::cuda {
namespace {

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
        lane, count,
        [&](std::int64_t index) { return load_bytes<N>(x + index * N); },
        [&](const Bytes<N>& unit, std::int64_t index) {
          store_four(unit, index);
        });
  }
};

/// Some pixels of images that are twice as large as those that `x` has pixels
/// of. A thread writes a few units of N bytes.
template <int N>
struct UpsamplePart {
  static constexpr const char* kName = "upsample_part";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;
  static constexpr int kUnits = 4;  // loads of a thread in flight together

  const std::uint8_t* x;
  std::uint8_t* out;
  std::int64_t count;            ///< units of out
  std::int64_t units_per_pixel;  ///< of N bytes
  std::int64_t width;            ///< of an image of x, in pixels
  std::int64_t out_width;
  std::int64_t first;  ///< pixel of an image that x begins with
  std::int64_t out_first;
  std::int64_t pixels;  ///< of an item of x
  std::int64_t out_pixels;

  TROUPE_DEVICE std::int64_t source_of(std::int64_t index) const {
    const std::int64_t place = index / units_per_pixel;
    const std::int64_t item = place / out_pixels;
    const std::int64_t pixel = out_first + place - item * out_pixels;
    const std::int64_t row = pixel / out_width;
    const std::int64_t column = pixel - row * out_width;
    const std::int64_t from =
        item * pixels + row / 2 * width + column / 2 - first;
    return from * units_per_pixel + (index - place * units_per_pixel);
  }

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    move_units<N, kThreads, kUnits>(
        lane, count,
        [&](std::int64_t index) {
          return load_bytes<N>(x + source_of(index) * N);
        },
        [&](const Bytes<N>& unit, std::int64_t index) {
          store_bytes<N>(unit, out + index * N);
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
        lane, count,
        [&](std::int64_t index) { return load_bytes<N>(from + index * N); },
        [&](const Bytes<N>& unit, std::int64_t index) {
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

void upsample_part(ExecContext& ctx, const Tensor& x, const ImagePart& from,
                   Tensor& out, const ImagePart& to) {
  if (out.empty()) {
    return;
  }
  const auto* source = reinterpret_cast<const std::uint8_t*>(x.bytes().data());
  auto* target = reinterpret_cast<std::uint8_t*>(out.bytes().data());
  const auto pixel_bytes =
      x.dim(2) * static_cast<std::int64_t>(size_of(x.dtype()));
  with_unit_bytes(
      reinterpret_cast<std::uintptr_t>(source) |
          reinterpret_cast<std::uintptr_t>(target) |
          static_cast<std::uintptr_t>(pixel_bytes),
      [&](auto bytes) {
        constexpr int kBytes = decltype(bytes)::value;
        using Kernel = UpsamplePart<kBytes>;
        const Kernel kernel{source,
                            target,
                            static_cast<std::int64_t>(out.num_bytes()) / kBytes,
                            pixel_bytes / kBytes,
                            from.width,
                            to.width,
                            from.pixels.begin,
                            to.pixels.begin,
                            from.pixels.size(),
                            to.pixels.size()};
        launch(Backend::of(ctx), kernel,
               {blocks_for(kernel.count, Kernel::kThreads * Kernel::kUnits)});
      });
}

}  // namespace troupe::kernels::cuda

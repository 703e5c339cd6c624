#include "kernels/cuda/pad.cuh"
#include "kernels/cuda/units.cuh"

namespace troupe::kernels::cuda {
namespace {

/// Images with zeros around each. A thread writes a few units of N bytes: what
/// it reads, or zeros.
template <int N>
struct Pad {
  static constexpr const char* kName = "pad";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;
  static constexpr int kUnits = 4;  // loads of a thread in flight together

  const std::uint8_t* x;
  std::uint8_t* out;
  std::int64_t count;  ///< units of out
  std::int64_t rows;   ///< of an image of x
  std::int64_t line;   ///< units of a row of x
  std::int64_t out_rows;
  std::int64_t out_line;
  std::int64_t top;   ///< rows of zeros
  std::int64_t left;  ///< units of zeros

  TROUPE_DEVICE Bytes<N> unit_of(std::int64_t index) const {
    const std::int64_t out_row = index / out_line;
    const std::int64_t item = out_row / out_rows;
    const std::int64_t row = out_row - item * out_rows - top;
    const std::int64_t at = index - out_row * out_line - left;
    if (row < 0 || row >= rows || at < 0 || at >= line) {
      return {};
    }
    return load_bytes<N>(x + ((item * rows + row) * line + at) * N);
  }

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    move_units<N, kThreads, kUnits>(
        lane, count, [&](std::int64_t index) { return unit_of(index); },
        [&](const Bytes<N>& unit, std::int64_t index) {
          store_bytes<N>(unit, out + index * N);
        });
  }
};

}  // namespace

Tensor padded_copy(ExecContext& ctx, const Tensor& x, const Padding& padding) {
  const std::int64_t rows = padding.top + x.dim(1) + padding.bottom;
  const std::int64_t columns = padding.left + x.dim(2) + padding.right;
  Tensor padded =
      ctx.workspace().take({x.dim(0), rows, columns, x.dim(3)}, x.dtype());
  const auto* from = reinterpret_cast<const std::uint8_t*>(x.bytes().data());
  const auto pixel_bytes =
      x.dim(3) * static_cast<std::int64_t>(size_of(x.dtype()));
  with_unit_bytes(
      reinterpret_cast<std::uintptr_t>(from) |
          static_cast<std::uintptr_t>(pixel_bytes),
      [&](auto bytes) {
        constexpr int kBytes = decltype(bytes)::value;
        using Kernel = Pad<kBytes>;
        const std::int64_t units = pixel_bytes / kBytes;  // of a pixel
        const Kernel kernel{
            from,
            reinterpret_cast<std::uint8_t*>(padded.bytes().data()),
            x.dim(0) * rows * columns * units,
            x.dim(1),
            x.dim(2) * units,
            rows,
            columns * units,
            padding.top,
            padding.left * units};
        launch(Backend::of(ctx), kernel,
               {blocks_for(kernel.count, Kernel::kThreads * Kernel::kUnits)});
      });
  return padded;
}

}  // namespace troupe::kernels::cuda

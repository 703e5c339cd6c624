#include <algorithm>
#include <cstring>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_cut.h"

namespace troupe::kernels::cpu {
namespace {

// Output pixels of one block. Their patches take 128 · 9 · 512 elements in the
// widest layer of a VAE decoder, about the size of a second-level cache.
constexpr std::int64_t kMaxBlockPixels = 128;
constexpr std::size_t kAlignment = 64;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// One image and the convolution over it.
struct Image {
  const std::byte* data;  ///< [pixels of the part, I]
  ImagePart part;
  std::int64_t out_width;
  std::size_t pixel_bytes;
};

/// Writes the patches (kh, kw, I) of output pixels [begin, end) as rows.
void gather_patches(const Image& image, const ConvWeights& conv,
                    std::int64_t begin, std::int64_t end, std::byte* rows) {
  for (std::int64_t pixel = begin; pixel < end; ++pixel) {
    const std::int64_t top =
        pixel / image.out_width * conv.stride - conv.padding.top;
    const std::int64_t left =
        pixel % image.out_width * conv.stride - conv.padding.left;
    const std::int64_t first =
        std::clamp<std::int64_t>(-left, 0, conv.kernel_width);
    const std::int64_t last = std::clamp<std::int64_t>(
        image.part.width - left, first, conv.kernel_width);
    const auto before = static_cast<std::size_t>(first) * image.pixel_bytes;
    const auto inside =
        static_cast<std::size_t>(last - first) * image.pixel_bytes;
    const auto row_bytes =
        static_cast<std::size_t>(conv.kernel_width) * image.pixel_bytes;
    for (std::int64_t dy = 0; dy < conv.kernel_height; ++dy) {
      const std::int64_t y = top + dy;
      if (y < 0 || y >= image.part.height || inside == 0) {
        std::memset(rows, 0, row_bytes);
      } else {
        const auto from =
            static_cast<std::size_t>(y * image.part.width + left + first -
                                     image.part.pixels.begin) *
            image.pixel_bytes;
        std::memset(rows, 0, before);
        std::memcpy(rows + before, image.data + from, inside);
        std::memset(rows + before + inside, 0, row_bytes - before - inside);
      }
      rows += row_bytes;
    }
  }
}

}  // namespace

Tensor channels_last_weights(const Tensor& weight) {
  const std::int64_t outputs = weight.dim(0);
  const std::int64_t inputs = weight.dim(1);
  const std::int64_t taps = weight.dim(2) * weight.dim(3);
  Tensor rows({outputs, taps * inputs}, weight.dtype());
  const std::size_t size = size_of(weight.dtype());
  const std::byte* from = weight.bytes().data();
  std::byte* to = rows.bytes().data();
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      for (std::int64_t i = 0; i < inputs; ++i) {
        const std::int64_t element = (o * inputs + i) * taps + tap;
        std::memcpy(to, from + static_cast<std::size_t>(element) * size, size);
        to += size;
      }
    }
  }
  return rows;
}

void conv2d(ExecContext& ctx, const Tensor& x, const ImagePart& from,
            const ConvWeights& conv, Tensor& out, const ImagePart& to) {
  const PackedMatrix& matrix = conv.matrix;
  const std::int64_t items = out.dim(0);
  const std::int64_t pixels = to.pixels.size();
  const std::int64_t channels = matrix.rows();
  if (out.empty()) {
    return;
  }
  const RowCut cut =
      cut_rows(pixels, kMaxBlockPixels, [&](std::int64_t height) {
        return panels_stand_alone(ctx, matrix, height);
      });
  const std::int64_t num_blocks = cut.num_blocks;
  const std::int64_t block_pixels = cut.block_rows;
  const BlockProduct body(ctx, matrix, block_pixels);
  const BlockProduct last(ctx, matrix, cut.last_rows());
  const std::size_t size = size_of(x.dtype());
  const std::size_t patch_bytes = rounded_up(
      static_cast<std::size_t>(block_pixels * matrix.columns()) * size);
  const std::size_t scratch_bytes =
      patch_bytes + std::max(body.scratch_bytes(), last.scratch_bytes());
  const std::int64_t image_elements = from.pixels.size() * conv.in_channels;
  // A 1×1 convolution's patches are the pixels themselves.
  const bool in_place = matrix.columns() == conv.in_channels &&
                        conv.stride == 1 && conv.padding == Padding{};

  ctx.pool().run(items * num_blocks, [&](std::int64_t piece, int thread) {
    const std::int64_t item = piece / num_blocks;
    const std::int64_t begin = piece % num_blocks * block_pixels;
    const BlockProduct& product =
        piece % num_blocks + 1 == num_blocks ? last : body;
    std::byte* scratch = ctx.scratch(thread, scratch_bytes);
    const Source source = Source(x).at(item * image_elements);
    const std::int64_t pixel = to.pixels.begin + begin;
    const void* rows = scratch;
    if (in_place) {
      rows = source.at((pixel - from.pixels.begin) * conv.in_channels).data;
    } else {
      const Image image{
          .data = static_cast<const std::byte*>(source.data),
          .part = from,
          .out_width = to.width,
          .pixel_bytes = static_cast<std::size_t>(conv.in_channels) * size};
      gather_patches(image, conv, pixel, pixel + product.rows(), scratch);
    }
    for (std::int64_t panel = 0; panel < matrix.num_panels(); ++panel) {
      const std::int64_t column = matrix.panel_begin(panel);
      Epilogue epilogue;
      if (matrix.bias() != nullptr) {
        epilogue.bias = matrix.bias() + column;
      }
      product.run(thread, rows, panel, epilogue,
                  Target(out).at((item * pixels + begin) * channels + column),
                  channels, scratch + patch_bytes);
    }
  });
}

std::size_t conv2d_thread_bytes(std::int64_t columns, DType compute) {
  constexpr std::size_t kMostSums = 256;  // of a pixel: a panel has fewer
  return static_cast<std::size_t>(kMaxBlockPixels) *
         (static_cast<std::size_t>(columns) * size_of(compute) +
          kMostSums * sizeof(float));
}

void upsample_nearest2x(ExecContext& ctx, const Tensor& x,
                        const ImagePart& from, Tensor& out,
                        const ImagePart& to) {
  if (out.empty()) {
    return;
  }
  const std::size_t pixel_bytes =
      out.num_bytes() / static_cast<std::size_t>(out.dim(0) * to.pixels.size());
  const auto bytes_of = [pixel_bytes](std::int64_t pixels) {
    return static_cast<std::size_t>(pixels) * pixel_bytes;
  };
  // Row by row of the result; the first and the last one may be parts.
  const std::int64_t first_row = to.pixels.begin / to.width;
  const std::int64_t rows =
      (to.pixels.end + to.width - 1) / to.width - first_row;
  ctx.pool().run(out.dim(0) * rows, [&](std::int64_t piece, int /*thread*/) {
    const std::int64_t item = piece / rows;
    const std::int64_t row = first_row + piece % rows;
    const std::int64_t begin = std::max(row * to.width, to.pixels.begin);
    const std::int64_t end = std::min((row + 1) * to.width, to.pixels.end);
    const std::byte* const source =
        x.bytes().data() + bytes_of(item * from.pixels.size() +
                                    row / 2 * from.width - from.pixels.begin);
    std::byte* target = out.bytes().data() + bytes_of(item * to.pixels.size() +
                                                      begin - to.pixels.begin);
    for (std::int64_t pixel = begin; pixel < end; ++pixel) {
      std::memcpy(target, source + bytes_of(pixel % to.width / 2), pixel_bytes);
      target += pixel_bytes;
    }
  });
}

void concat_channels(ExecContext& ctx, const Tensor& a, const Tensor& b,
                     Tensor& out) {
  if (out.empty()) {
    return;
  }
  constexpr std::int64_t kBlock = 64;  // pixels
  const std::size_t last = a.shape().rank() - 1;
  const auto bytes_of = [&](const Tensor& tensor) {
    return static_cast<std::size_t>(tensor.dim(last)) * size_of(tensor.dtype());
  };
  const std::size_t a_bytes = bytes_of(a);
  const std::size_t b_bytes = bytes_of(b);
  const std::int64_t pixels = out.num_elements() / out.dim(last);
  ctx.pool().run((pixels + kBlock - 1) / kBlock, [&](std::int64_t block,
                                                     int /*thread*/) {
    const std::int64_t begin = block * kBlock;
    const auto at = static_cast<std::size_t>(begin);
    std::byte* to = out.bytes().data() + at * (a_bytes + b_bytes);
    const std::byte* left = a.bytes().data() + at * a_bytes;
    const std::byte* right = b.bytes().data() + at * b_bytes;
    for (std::int64_t i = begin; i < std::min(begin + kBlock, pixels); ++i) {
      to = std::copy_n(left, a_bytes, to);
      to = std::copy_n(right, b_bytes, to);
      left += a_bytes;
      right += b_bytes;
    }
  });
}

}  // namespace troupe::kernels::cpu

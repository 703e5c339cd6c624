#include <algorithm>
#include <cstring>
#include <random>
#include <tuple>

#include "kernels/conv2d.h"
#include "kernels/core/error.h"
#include "kernels/row_blocks.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

struct ConvCase {
  std::int64_t b, h, w, in, out, kernel, stride;
  Padding padding;

  [[nodiscard]] Shape x_shape() const { return {b, h, w, in}; }
  [[nodiscard]] Shape out_shape() const {
    return {b, (padding.top + h + padding.bottom - kernel) / stride + 1,
            (padding.left + w + padding.right - kernel) / stride + 1, out};
  }
};

constexpr Padding kNone;
constexpr ConvCase kConvCases[] = {
    {0, 4, 4, 2, 3, 3, 1, Padding::all(1)},
    {1, 1, 1, 1, 1, 1, 1, kNone},
    {1, 1, 1, 1, 1, 3, 1, Padding::all(1)},
    {2, 5, 7, 3, 4, 3, 1, Padding::all(1)},
    {1, 9, 6, 4, 5, 3, 2, Padding::all(1)},
    {2, 6, 6, 5, 7, 1, 1, kNone},
    {1, 8, 8, 3, 9, 2, 2, kNone},
    {1, 23, 19, 6, 65, 3, 1, Padding::all(1)},
    {1, 3, 200, 2, 3, 3, 1, Padding::all(1)},
    {1, 4, 5, 2, 3, 3, 1, Padding::all(2)},
    {1, 6, 6, 3, 2, 1, 2, kNone},
    {1, 2, 2, 2, 2, 1, 1, Padding::all(1)},
    // The halving of an autoencoder, of even and of odd sides.
    {2, 8, 6, 3, 9, 3, 2, {.bottom = 1, .right = 1}},
    {2, 9, 7, 4, 5, 3, 2, {.bottom = 1, .right = 1}},
    // The first, a middle and the last shard of rows.
    {1, 7, 9, 3, 4, 3, 1, {.top = 1, .left = 1, .right = 1}},
    {1, 7, 9, 3, 4, 3, 1, {.left = 1, .right = 1}},
    {1, 6, 9, 3, 4, 3, 2, {.bottom = 1, .left = 1, .right = 1}},
    // Several blocks of pixels.
    {1, 23, 19, 32, 64, 3, 1, {.top = 2, .left = 1, .right = 3}},
    // Patches that lie beside the image altogether.
    {1, 3, 2, 2, 3, 2, 1, {.top = 4, .bottom = 1, .right = 5}},
    {1, 5, 3, 2, 3, 1, 1, {.left = 1}},
    // Without the padding, the image is smaller than the kernel.
    {1, 1, 2, 2, 3, 3, 1, {.bottom = 2, .left = 1}}};

std::vector<double> convolved(const Tensor& x, const Tensor& weight,
                              const Tensor& bias, const ConvCase& c) {
  const Shape out = c.out_shape();
  std::vector<double> values;
  for (std::int64_t b = 0; b < out[0]; ++b) {
    for (std::int64_t y = 0; y < out[1]; ++y) {
      for (std::int64_t z = 0; z < out[2]; ++z) {
        for (std::int64_t o = 0; o < out[3]; ++o) {
          double sum = bias.empty() ? 0 : value_at(bias, o);
          for (std::int64_t dy = 0; dy < c.kernel; ++dy) {
            for (std::int64_t dx = 0; dx < c.kernel; ++dx) {
              const std::int64_t iy = y * c.stride + dy - c.padding.top;
              const std::int64_t ix = z * c.stride + dx - c.padding.left;
              if (iy < 0 || iy >= c.h || ix < 0 || ix >= c.w) {
                continue;
              }
              for (std::int64_t i = 0; i < c.in; ++i) {
                sum +=
                    value_at(x, ((b * c.h + iy) * c.w + ix) * c.in + i) *
                    value_at(weight,
                             ((o * c.in + i) * c.kernel + dy) * c.kernel + dx);
              }
            }
          }
          values.push_back(sum);
        }
      }
    }
  }
  return values;
}

TEST(Conv2d, MatchesADoubleReferenceForEveryGeometry) {
  for (const DType dtype : compute_types()) {
    for (const ConvCase& c : kConvCases) {
      ExecContext ctx(2);
      const Tensor x = random_tensor(c.x_shape(), dtype, 1);
      const Tensor weight =
          random_tensor({c.out, c.in, c.kernel, c.kernel}, dtype, 2);
      const Tensor bias =
          c.out % 2 == 0 ? Tensor() : random_tensor({c.out}, DType::f32, 3);
      const PackedConv2d packed(ctx, weight, bias, c.stride, c.padding, dtype);
      EXPECT_EQ(packed.in_channels(), c.in);
      EXPECT_EQ(packed.out_channels(), c.out);
      for (const DType to : {DType::f32, dtype}) {
        Guarded out(c.out_shape(), to, 1);
        conv2d(ctx, x, packed, out.tensor);
        EXPECT_TRUE(out.intact());
        expect_near(out.tensor, convolved(x, weight, bias, c),
                    to == DType::bf16 ? unit_of(to) : 1e-6, 8e-6);
      }
    }
  }
}

/// The image with its padding in memory.
Tensor with_zeros(const Tensor& x, const Padding& padding) {
  Tensor padded =
      Tensor::zeros({x.dim(0), padding.top + x.dim(1) + padding.bottom,
                     padding.left + x.dim(2) + padding.right, x.dim(3)},
                    x.dtype());
  const auto bytes_of = [&](std::int64_t pixels) {
    return static_cast<std::size_t>(pixels * x.dim(3)) * size_of(x.dtype());
  };
  for (std::int64_t row = 0; row < x.dim(0) * x.dim(1); ++row) {
    const std::int64_t to =
        row / x.dim(1) * padded.dim(1) + padding.top + row % x.dim(1);
    std::memcpy(
        padded.bytes().data() + bytes_of(to * padded.dim(2) + padding.left),
        x.bytes().data() + bytes_of(row * x.dim(2)), bytes_of(x.dim(2)));
  }
  return padded;
}

// Blocks of pixels follow from the result, which has the same size.
TEST(Conv2d, HasTheBytesOfZerosInMemory) {
  for (const DType dtype : compute_types()) {
    for (const ConvCase& c : kConvCases) {
      ExecContext ctx(2);
      const Tensor x = random_tensor(c.x_shape(), dtype, 1);
      const Tensor weight =
          random_tensor({c.out, c.in, c.kernel, c.kernel}, dtype, 2);
      Tensor out(c.out_shape(), dtype);
      conv2d(ctx, x, PackedConv2d(ctx, weight, {}, c.stride, c.padding, dtype),
             out);
      Tensor expected(c.out_shape(), dtype);
      conv2d(ctx, with_zeros(x, c.padding),
             PackedConv2d(ctx, weight, {}, c.stride, kNone, dtype), expected);
      EXPECT_TRUE(bytes_equal(out, expected));
    }
  }
}

/// Pixels of an image [1, H, W, C], as [1, pixels, C].
Tensor pixels_of(const Tensor& image, const ImagePart& part) {
  const std::int64_t channels = image.dim(3);
  return image.reshape({image.dim(1) * image.dim(2), channels})
      .slice(part.pixels.begin, part.pixels.end)
      .reshape({1, part.pixels.size(), channels});
}

/// Drawn pixels of an image, from a multiple of kRowBlock on.
ImagePart drawn_part(std::mt19937& engine, std::int64_t height,
                     std::int64_t width) {
  const std::int64_t pixels = height * width;
  const std::int64_t blocks = (pixels + kRowBlock - 1) / kRowBlock;
  std::uniform_int_distribution<std::int64_t> block(0, blocks);
  const std::int64_t one = std::min(block(engine) * kRowBlock, pixels);
  const std::int64_t other = std::min(block(engine) * kRowBlock, pixels);
  return {height, width, {std::min(one, other), std::max(one, other)}};
}

// What a rank has of an image: strides, kernels and odd sides are drawn.
TEST(Conv2d, PixelsOfAnImageHaveTheBytesOfTheWhole) {
  std::mt19937 engine(11);
  const auto number = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine);
  };
  for (const DType compute : compute_types()) {
    for (int i = 0; i < 40; ++i) {
      ExecContext ctx(2);
      const std::int64_t in = number(3, 24);
      const std::int64_t out = number(3, 200);
      const std::int64_t kernel = 2 * number(0, 1) + 1;
      const std::int64_t stride = number(1, 2);
      const Tensor weight =
          random_tensor({out, in, kernel, kernel}, DType::f32, 1);
      const PackedConv2d packed(ctx, weight,
                                random_tensor({out}, DType::f32, 2), stride,
                                Padding::all(kernel / 2), compute);
      const ImagePart sides = ImagePart::whole(number(8, 50), number(8, 50));
      const Tensor x =
          random_tensor({1, sides.height, sides.width, in}, compute, 3);
      Tensor want({1, (sides.height - 1) / stride + 1,
                   (sides.width - 1) / stride + 1, out},
                  i % 2 == 0 ? DType::f32 : compute);
      conv2d(ctx, x, packed, want);
      const ImagePart to = drawn_part(engine, want.dim(1), want.dim(2));
      const ImagePart from = packed.read_for(to, sides);
      Tensor got({1, to.pixels.size(), out}, want.dtype());
      conv2d(ctx, pixels_of(x, from), from, packed, got, to);
      EXPECT_TRUE(bytes_equal(got, pixels_of(want, to)))
          << to_string(compute) << ", " << sides.height << " × " << sides.width
          << ", kernel " << kernel << ", stride " << stride << ", pixels "
          << to.pixels.begin << " to " << to.pixels.end;
      if (from.pixels.size() > 0) {
        ImagePart less = from;
        --less.pixels.end;
        EXPECT_THROW(conv2d(ctx, pixels_of(x, less), less, packed, got, to),
                     Error);
      }
    }
  }
}

TEST(Upsample, PixelsOfAnImageHaveTheBytesOfTheWhole) {
  std::mt19937 engine(12);
  const auto side = [&] {
    return std::uniform_int_distribution<std::int64_t>(1, 40)(engine);
  };
  for (int i = 0; i < 40; ++i) {
    ExecContext ctx(2);
    const ImagePart sides = ImagePart::whole(side(), side());
    const Tensor x =
        random_tensor({1, sides.height, sides.width, 5}, DType::bf16, 3);
    Tensor want({1, 2 * sides.height - i % 2, 2 * sides.width - i / 2 % 2, 5},
                DType::bf16);
    upsample_nearest2x(ctx, x, want);
    const ImagePart to = drawn_part(engine, want.dim(1), want.dim(2));
    const ImagePart from = read_for_upsampling(to, sides);
    Tensor got({1, to.pixels.size(), 5}, DType::bf16);
    upsample_nearest2x(ctx, pixels_of(x, from), from, got, to);
    EXPECT_TRUE(bytes_equal(got, pixels_of(want, to))) << i;
  }
}

TEST(Conv2d, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  const Tensor weight = random_tensor({2, 3, 3, 3}, DType::f32, 1);
  const PackedConv2d packed(ctx, weight, Tensor(), 1, kNone, DType::f32);
  Tensor out({1, 2, 2, 2}, DType::f32);
  EXPECT_THROW(conv2d(ctx, Tensor({1, 2, 2, 3}, DType::f32), packed, out),
               Error);
  EXPECT_THROW(conv2d(ctx, Tensor({1, 4, 4, 2}, DType::f32), packed, out),
               Error);
  EXPECT_THROW(conv2d(ctx, Tensor({1, 5, 4, 3}, DType::f32), packed, out),
               Error);
  EXPECT_THROW(conv2d(ctx, Tensor({1, 4, 4, 3}, DType::bf16), packed, out),
               Error);
  EXPECT_THROW(
      conv2d(ctx, Tensor({1, 4, 4, 3}, DType::f32), PackedConv2d(), out),
      Error);
  const auto pack = [&](std::int64_t stride, const Padding& padding,
                        DType compute) {
    return PackedConv2d(ctx, weight, Tensor(), stride, padding, compute);
  };
  EXPECT_THROW(pack(0, kNone, DType::f32), Error);
  EXPECT_THROW(pack(1, kNone, DType::f16), Error);
  for (const Padding& padding : {Padding{.top = -1}, Padding{.bottom = -1},
                                 Padding{.left = -1}, Padding{.right = -1}}) {
    try {
      (void)pack(1, padding, DType::f32);
      ADD_FAILURE() << "it took them";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::invalid_argument);
    }
  }
}

TEST(Conv2d, RefusesAnImageThatIsSmallerThanTheKernelWithItsPadding) {
  ExecContext ctx;
  const Tensor weight = random_tensor({2, 3, 3, 3}, DType::f32, 1);
  const auto convolve = [&](std::int64_t height, std::int64_t width,
                            const Padding& padding) {
    const PackedConv2d packed(ctx, weight, Tensor(), 1, padding, DType::f32);
    Tensor out({1, 1, 1, 2}, DType::f32);
    conv2d(ctx, Tensor({1, height, width, 3}, DType::f32), packed, out);
  };
  EXPECT_NO_THROW(convolve(2, 1, {.top = 1, .right = 2}));
  EXPECT_NO_THROW(convolve(1, 2, {.bottom = 2, .left = 1}));
  for (const auto& [height, width, padding] :
       {std::tuple{2, 1, Padding{.top = 1, .right = 1}},
        {1, 2, Padding{.bottom = 2, .right = 0}},
        {1, 3, Padding{.bottom = 1, .left = 2, .right = 2}}}) {
    try {
      convolve(height, width, padding);
      ADD_FAILURE() << "it took " << height << " × " << width;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::shape_mismatch);
      EXPECT_NE(std::string(error.what()).find("smaller than the kernel"),
                std::string::npos);
    }
  }
}

/// Of [B, H, W, C]; `cut_y`, `cut_x`: rows and columns left out at the end.
void expect_doubled(const Shape& shape, DType dtype, std::int64_t cut_y,
                    std::int64_t cut_x) {
  ExecContext ctx(2);
  const Tensor x = random_tensor(shape, dtype, 1);
  const std::int64_t height = 2 * shape[1] - cut_y;
  const std::int64_t width = 2 * shape[2] - cut_x;
  Guarded out({shape[0], height, width, shape[3]}, dtype);
  upsample_nearest2x(ctx, x, out.tensor);
  EXPECT_TRUE(out.intact());
  std::vector<double> expected;
  for (std::int64_t item = 0; item < shape[0]; ++item) {
    for (std::int64_t row = 0; row < height; ++row) {
      for (std::int64_t column = 0; column < width; ++column) {
        const std::int64_t pixel =
            (item * shape[1] + row / 2) * shape[2] + column / 2;
        for (std::int64_t c = 0; c < shape[3]; ++c) {
          expected.push_back(value_at(x, pixel * shape[3] + c));
        }
      }
    }
  }
  expect_near(out.tensor, expected, 0, 0);
}

TEST(UpsampleNearest2x, RepeatsEveryPixelFourTimes) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{1, 1, 1, 1},
                               Shape{0, 2, 2, 3}, Shape{1, 2, 0, 3}}) {
      expect_doubled(shape, dtype, 0, 0);
    }
  }
}

TEST(UpsampleNearest2x, LeavesOutTheLastRowOrColumnOfAnOddResult) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Shape& shape : {Shape{3, 3, 5, 7}, Shape{2, 1, 1, 1},
                               Shape{2, 1, 4, 3}, Shape{0, 2, 2, 3}}) {
      expect_doubled(shape, dtype, 1, 0);
      expect_doubled(shape, dtype, 0, 1);
      expect_doubled(shape, dtype, 1, 1);
    }
  }
}

TEST(ConcatChannels, PutsTheSecondBehindTheFirst) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Shape shape : {Shape{2, 3, 50, 7}, Shape{1, 1, 1, 1},
                              Shape{0, 2, 2, 3}, Shape{2, 3, 3, 0}}) {
      ExecContext ctx(2);
      const std::int64_t width = shape[3];
      const Tensor a = random_tensor(shape, dtype, 1);
      const Tensor b =
          random_tensor({shape[0], shape[1], shape[2], 5}, dtype, 2);
      Guarded out({shape[0], shape[1], shape[2], width + 5}, dtype);
      concat_channels(ctx, a, b, out.tensor);
      EXPECT_TRUE(out.intact());
      std::vector<double> expected;
      for (std::int64_t pixel = 0; pixel < shape[0] * shape[1] * shape[2];
           ++pixel) {
        for (std::int64_t c = 0; c < width; ++c) {
          expected.push_back(value_at(a, pixel * width + c));
        }
        for (std::int64_t c = 0; c < 5; ++c) {
          expected.push_back(value_at(b, pixel * 5 + c));
        }
      }
      expect_near(out.tensor, expected, 0, 0);
    }
  }
}

TEST(ConcatChannels, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  const Tensor a({1, 2, 3}, DType::f32);
  Tensor out({1, 2, 5}, DType::f32);
  EXPECT_THROW(concat_channels(ctx, a, Tensor({1, 3, 2}, DType::f32), out),
               Error);
  EXPECT_THROW(concat_channels(ctx, a, Tensor({1, 2, 3}, DType::f32), out),
               Error);
  EXPECT_THROW(concat_channels(ctx, a, Tensor({1, 2, 2}, DType::bf16), out),
               Error);
  EXPECT_THROW(concat_channels(ctx, a, Tensor({2, 2}, DType::f32), out), Error);
}

TEST(UpsampleNearest2x, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  const auto code_of = [&](const Shape& from, const Shape& to) {
    try {
      Tensor out(to, DType::f32);
      upsample_nearest2x(ctx, Tensor(from, DType::f32), out);
    } catch (const Error& error) {
      return error.code();
    }
    return Errc::internal;  // it took them
  };
  const Shape from{1, 2, 3, 3};
  for (const Shape& to :
       {Shape{1, 4, 4, 3}, Shape{1, 4, 7, 3}, Shape{1, 2, 6, 3},
        Shape{1, 5, 6, 3}, Shape{2, 4, 6, 3}, Shape{1, 3, 5, 2},
        Shape{4, 6, 3}}) {
    EXPECT_EQ(code_of(from, to), Errc::shape_mismatch) << to_string(to);
  }
  EXPECT_EQ(code_of({1, 0, 3, 3}, {1, 1, 6, 3}), Errc::shape_mismatch);
  const Tensor x({1, 6, 3}, DType::f32);
  Tensor out({1, 6, 3}, DType::f32);
  for (const ImagePart& to :
       {ImagePart{4, 4, {0, 6}}, ImagePart{5, 6, {0, 6}}}) {
    EXPECT_THROW(upsample_nearest2x(ctx, x, ImagePart::whole(2, 3), out, to),
                 Error);
  }
}

}  // namespace
}  // namespace troupe::kernels

#include "kernels/conv2d.h"
#include "kernels/core/error.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

struct ConvCase {
  std::int64_t b, h, w, in, out, kernel, stride, padding;
};

constexpr ConvCase kConvCases[] = {
    {0, 4, 4, 2, 3, 3, 1, 1},   {1, 1, 1, 1, 1, 1, 1, 0},
    {1, 1, 1, 1, 1, 3, 1, 1},   {2, 5, 7, 3, 4, 3, 1, 1},
    {1, 9, 6, 4, 5, 3, 2, 1},   {2, 6, 6, 5, 7, 1, 1, 0},
    {1, 8, 8, 3, 9, 2, 2, 0},   {1, 23, 19, 6, 65, 3, 1, 1},
    {1, 3, 200, 2, 3, 3, 1, 1}, {1, 4, 5, 2, 3, 3, 1, 2},
    {1, 6, 6, 3, 2, 1, 2, 0},   {1, 2, 2, 2, 2, 1, 1, 1}};

std::vector<double> convolved(const Tensor& x, const Tensor& weight,
                              const Tensor& bias, const ConvCase& c,
                              const Shape& out) {
  std::vector<double> values;
  for (std::int64_t b = 0; b < out[0]; ++b) {
    for (std::int64_t y = 0; y < out[1]; ++y) {
      for (std::int64_t z = 0; z < out[2]; ++z) {
        for (std::int64_t o = 0; o < out[3]; ++o) {
          double sum = bias.empty() ? 0 : value_at(bias, o);
          for (std::int64_t dy = 0; dy < c.kernel; ++dy) {
            for (std::int64_t dx = 0; dx < c.kernel; ++dx) {
              const std::int64_t iy = y * c.stride + dy - c.padding;
              const std::int64_t ix = z * c.stride + dx - c.padding;
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
      const Tensor x = random_tensor({c.b, c.h, c.w, c.in}, dtype, 1);
      const Tensor weight =
          random_tensor({c.out, c.in, c.kernel, c.kernel}, dtype, 2);
      const Tensor bias =
          c.out % 2 == 0 ? Tensor() : random_tensor({c.out}, DType::f32, 3);
      const PackedConv2d packed(ctx, weight, bias, c.stride, c.padding, dtype);
      EXPECT_EQ(packed.in_channels(), c.in);
      EXPECT_EQ(packed.out_channels(), c.out);
      const Shape shape{c.b, (c.h + 2 * c.padding - c.kernel) / c.stride + 1,
                        (c.w + 2 * c.padding - c.kernel) / c.stride + 1, c.out};
      for (const DType to : {DType::f32, dtype}) {
        Guarded out(shape, to, 1);
        conv2d(ctx, x, packed, out.tensor);
        EXPECT_TRUE(out.intact());
        expect_near(out.tensor, convolved(x, weight, bias, c, shape),
                    to == DType::bf16 ? unit_of(to) : 1e-6, 8e-6);
      }
    }
  }
}

TEST(Conv2d, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  const Tensor weight = random_tensor({2, 3, 3, 3}, DType::f32, 1);
  const PackedConv2d packed(ctx, weight, Tensor(), 1, 0, DType::f32);
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
  EXPECT_THROW(PackedConv2d(ctx, weight, Tensor(), 0, 1, DType::f32), Error);
  EXPECT_THROW(PackedConv2d(ctx, weight, Tensor(), 1, -1, DType::f32), Error);
  EXPECT_THROW(PackedConv2d(ctx, weight, Tensor(), 1, 1, DType::f16), Error);
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
}

}  // namespace
}  // namespace troupe::kernels

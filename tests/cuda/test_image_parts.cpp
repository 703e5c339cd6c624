#include <random>

#include "kernels/conv2d.h"
#include "kernels/norm.h"
#include "kernels/row_blocks.h"
#include "tests/cuda/views.h"

// Pixels of an image, as a rank has them, have the bytes of the whole image, or
// are refused.

namespace troupe::kernels {
namespace {

class ImagePartsOnGpu : public CudaTest {
 protected:
  std::int64_t number(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine_);
  }
  DType dtype() {
    constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
    return kTypes[number(0, 2)];
  }
  /// Any pixels of an image.
  ImagePart part(std::int64_t height, std::int64_t width) {
    const std::int64_t one = number(0, height * width);
    const std::int64_t other = number(0, height * width);
    return {height, width, {std::min(one, other), std::max(one, other)}};
  }

 private:
  std::mt19937 engine_{11};
};

/// Pixels of images [B, H, W, C] on the host, as [B, pixels, C].
Tensor pixels_of(const Tensor& images, const ImagePart& part) {
  const std::int64_t channels = images.dim(3);
  Tensor some({images.dim(0), part.pixels.size(), channels}, images.dtype());
  for (std::int64_t item = 0; item < some.dim(0); ++item) {
    const Tensor all =
        images.item(item).reshape({part.height * part.width, channels});
    const Tensor from = all.slice(part.pixels.begin, part.pixels.end);
    std::memcpy(some.item(item).bytes().data(), from.bytes().data(),
                from.num_bytes());
  }
  return some;
}

TEST_F(ImagePartsOnGpu, OfConvolutionsHaveTheBytesOfTheWhole) {
  ExecContext ctx(1, kGpu);
  int num_served = 0;
  constexpr int kCases = 60;
  for (int i = 0; i < kCases; ++i) {
    const DType compute = dtype();
    const std::int64_t in = number(1, 24);
    const std::int64_t out = number(1, 24);
    const std::int64_t kernel = 2 * number(0, 1) + 1;
    const std::int64_t stride = number(1, 2);
    // Same sides as the image, or zeros at the bottom and right alone.
    const Padding padding = number(0, 4) > 0 ? Padding::all(kernel / 2)
                                             : Padding{.bottom = 1, .right = 1};
    const PackedConv2d packed(
        ctx, random({out, in, kernel, kernel}, DType::f32, 1, 0.3F),
        random({out}, DType::f32, 2), stride, padding, compute);
    const ImagePart sides = ImagePart::whole(number(3, 30), number(3, 30));
    const std::int64_t items = number(1, 2);
    const Tensor x = random({items, sides.height, sides.width, in}, compute, 3);
    const auto side = [&](std::int64_t length, std::int64_t zeros) {
      return (length + zeros - kernel) / stride + 1;
    };
    Tensor whole =
        poisoned(ctx,
                 {items, side(sides.height, padding.top + padding.bottom),
                  side(sides.width, padding.left + padding.right), out},
                 number(0, 1) == 0 ? DType::f32 : compute);
    conv2d(ctx, upload(ctx, x), packed, whole);
    const Tensor want = download(ctx, whole);
    const ImagePart to = part(want.dim(1), want.dim(2));
    ImagePart from = packed.read_for(to, sides);
    if (from.pixels.size() > 0 && from.pixels.begin > 0) {
      from.pixels.begin -= number(0, 1);  // more than is read
    }
    GuardedOutput got(ctx, {items, to.pixels.size(), out}, want.dtype(),
                      number(0, 1));
    try {
      conv2d(ctx, shifted_upload(ctx, pixels_of(x, from), number(0, 1)), from,
             packed, got.tensor, to);
      ++num_served;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::unsupported) << error.what();
      continue;
    }
    EXPECT_TRUE(got.intact(ctx));
    EXPECT_TRUE(bytes_equal(download(ctx, got.tensor), pixels_of(want, to)))
        << to_string(compute) << ", " << sides.height << " × " << sides.width
        << ", kernel " << kernel << ", stride " << stride << ", pixels "
        << to.pixels.begin << " to " << to.pixels.end;
    if (from.pixels.size() > 0) {
      ImagePart less = packed.read_for(to, sides);
      --less.pixels.end;
      const Tensor few = upload(ctx, pixels_of(x, less));
      EXPECT_THROW(conv2d(ctx, few, less, packed, got.tensor, to), Error);
    }
  }
  std::printf("  %d of %d parts were served\n", num_served, kCases);
}

TEST_F(ImagePartsOnGpu, OfLargerImagesHaveTheBytesOfTheWhole) {
  ExecContext ctx(1, kGpu);
  for (int i = 0; i < 40; ++i) {
    const DType type = dtype();
    const ImagePart sides = ImagePart::whole(number(1, 20), number(1, 20));
    const std::int64_t channels = number(1, 9);
    const Tensor x = random({2, sides.height, sides.width, channels}, type, 3);
    Tensor whole = poisoned(
        ctx,
        {2, 2 * sides.height - i % 2, 2 * sides.width - i / 2 % 2, channels},
        type);
    upsample_nearest2x(ctx, upload(ctx, x), whole);
    const Tensor want = download(ctx, whole);
    const ImagePart to = part(want.dim(1), want.dim(2));
    const ImagePart from = read_for_upsampling(to, sides);
    GuardedOutput got(ctx, {2, to.pixels.size(), channels}, type, number(0, 1));
    upsample_nearest2x(ctx,
                       shifted_upload(ctx, pixels_of(x, from), number(0, 1)),
                       from, got.tensor, to);
    EXPECT_TRUE(got.intact(ctx));
    EXPECT_TRUE(bytes_equal(download(ctx, got.tensor), pixels_of(want, to)))
        << i;
  }
}

TEST_F(ImagePartsOnGpu, OfAGroupNormHaveTheBytesOfTheWhole) {
  constexpr std::int64_t kWidth = 24;
  constexpr std::int64_t kGroups = 3;
  ExecContext ctx(1, kGpu);
  const Tensor weight = upload(ctx, random({kWidth}, DType::f32, 2));
  const Tensor bias = upload(ctx, random({kWidth}, DType::f32, 3));
  // A partial sum has 16, 32, 64 and 128 pixels.
  for (const std::int64_t pixels : {1, 63, 65, 500, 9000, 17000, 40000}) {
    const DType type = dtype();
    const Tensor x = random({pixels, kWidth}, type, 1, 3);
    const Tensor there = upload(ctx, x);
    Tensor whole = poisoned(ctx, {1, 1, pixels, kWidth}, type);
    group_norm(ctx, there.reshape(whole.shape()), weight, bias, kGroups, 1e-4F,
               Activation::silu, whole);
    const Tensor want = download(ctx, whole).reshape(x.shape());
    const std::int64_t block = shard_block(pixels);
    const std::int64_t blocks = (pixels + block - 1) / block;
    for (int i = 0; i < 4; ++i) {
      const std::int64_t cut = number(0, blocks);
      const std::int64_t at = std::min(cut * block, pixels);
      Tensor moments = poisoned(
          ctx, {blocks, group_moments_width(ctx, pixels, kGroups)}, DType::u8);
      Tensor first = moments.slice(0, cut);
      Tensor last = moments.slice(cut, blocks);
      group_moments(ctx, there.slice(0, at), pixels, kGroups, first);
      group_moments(ctx, shifted_upload(ctx, x.slice(at, pixels), i % 2),
                    pixels, kGroups, last);
      Tensor got = poisoned(ctx, x.shape(), type);
      const std::int64_t middle = number(0, pixels);
      for (const RowRange& range :
           {RowRange{0, middle}, RowRange{middle, pixels}}) {
        Tensor rows = got.slice(range.begin, range.end);
        group_normalise(ctx, there.slice(range.begin, range.end), moments,
                        pixels, weight, bias, kGroups, 1e-4F, Activation::silu,
                        rows);
      }
      EXPECT_TRUE(bytes_equal(download(ctx, got), want))
          << pixels << ", cut at " << at;
    }
  }
}

}  // namespace
}  // namespace troupe::kernels

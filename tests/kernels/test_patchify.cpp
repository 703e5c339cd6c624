#include "kernels/core/error.h"
#include "kernels/patchify.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

struct PatchSize {
  std::int64_t b, c, h, w, p;
};

constexpr PatchSize kPatchSizes[] = {{0, 2, 4, 4, 2}, {1, 1, 1, 1, 1},
                                     {2, 3, 4, 6, 2}, {1, 4, 9, 3, 3},
                                     {2, 1, 5, 7, 1}, {1, 3, 8, 8, 4}};

TEST(Patchify, OrdersChannelThenRowThenColumn) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const PatchSize& s : kPatchSizes) {
      ExecContext ctx;
      const Tensor x = random_tensor({s.b, s.c, s.h, s.w}, DType::f32, 1);
      const std::int64_t columns = s.w / s.p;
      Guarded out({s.b, s.h / s.p * columns, s.c * s.p * s.p}, dtype, 1);
      patchify(ctx, x, s.p, out.tensor);
      EXPECT_TRUE(out.intact());
      const std::int64_t width = s.c * s.p * s.p;
      for (std::int64_t i = 0; i < x.num_elements(); ++i) {
        const std::int64_t column = i % s.w;
        const std::int64_t row = i / s.w % s.h;
        const std::int64_t c = i / (s.w * s.h) % s.c;
        const std::int64_t b = i / (s.w * s.h * s.c);
        const std::int64_t token =
            (b * (s.h / s.p) + row / s.p) * columns + column / s.p;
        const std::int64_t element = (c * s.p + row % s.p) * s.p + column % s.p;
        const auto value = x.data<float>()[i];
        ASSERT_EQ(value_at(out.tensor, token * width + element),
                  dtype == DType::bf16 ? bfloat16::from_float(value).to_float()
                                       : value);
      }
    }
  }
}

TEST(Unpatchify, OrdersRowThenColumnThenChannel) {
  for (const PatchSize& s : kPatchSizes) {
    ExecContext ctx;
    const std::int64_t columns = s.w / s.p;
    const std::int64_t width = s.c * s.p * s.p;
    const Tensor tokens =
        random_tensor({s.b, s.h / s.p * columns, width}, DType::f32, 2);
    Guarded out({s.b, s.c, s.h, s.w}, DType::f32, 1);
    unpatchify(ctx, tokens, s.p, out.tensor);
    EXPECT_TRUE(out.intact());
    for (std::int64_t i = 0; i < out.tensor.num_elements(); ++i) {
      const std::int64_t column = i % s.w;
      const std::int64_t row = i / s.w % s.h;
      const std::int64_t c = i / (s.w * s.h) % s.c;
      const std::int64_t b = i / (s.w * s.h * s.c);
      const std::int64_t token =
          (b * (s.h / s.p) + row / s.p) * columns + column / s.p;
      const std::int64_t element = (row % s.p * s.p + column % s.p) * s.c + c;
      ASSERT_EQ(value_at(out.tensor, i),
                value_at(tokens, token * width + element));
    }
  }
}

TEST(ChannelsLast, GoesThereAndBack) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const PatchSize& s : kPatchSizes) {
      ExecContext ctx(2);
      Tensor x = random_tensor({s.b, s.c, s.h, s.w}, DType::f32, 3);
      for (std::int64_t i = 0; i < x.num_elements(); ++i) {
        x.data<float>()[i] =
            bfloat16::from_float(x.data<float>()[i]).to_float();
      }
      Guarded last({s.b, s.h, s.w, s.c}, dtype, 1);
      to_channels_last(ctx, x, last.tensor);
      EXPECT_TRUE(last.intact());
      for (std::int64_t i = 0; i < x.num_elements(); ++i) {
        const std::int64_t pixel = i % (s.w * s.h);
        const std::int64_t c = i / (s.w * s.h) % s.c;
        const std::int64_t b = i / (s.w * s.h * s.c);
        ASSERT_EQ(value_at(last.tensor, (b * s.w * s.h + pixel) * s.c + c),
                  value_at(x, i));
      }
      Guarded back({s.b, s.c, s.h, s.w}, DType::f32, 1);
      to_channels_first(ctx, last.tensor, back.tensor);
      EXPECT_TRUE(back.intact());
      EXPECT_TRUE(bytes_equal(back.tensor, x));
    }
  }
}

TEST(Patchify, RefusesPatchesThatDoNotTile) {
  ExecContext ctx;
  const Tensor x({1, 3, 4, 6}, DType::f32);
  Tensor out({1, 6, 12}, DType::f32);
  for (const std::int64_t p : {0, -1, 3, 4, 5}) {
    EXPECT_THROW(patchify(ctx, x, p, out), Error);
  }
  Tensor image({1, 3, 4, 6}, DType::f32);
  EXPECT_THROW(unpatchify(ctx, Tensor({1, 5, 12}, DType::f32), 2, image),
               Error);
  Tensor last({1, 4, 6, 2}, DType::f32);
  EXPECT_THROW(to_channels_last(ctx, x, last), Error);
  EXPECT_THROW(to_channels_first(ctx, last, image), Error);
}

}  // namespace
}  // namespace troupe::kernels

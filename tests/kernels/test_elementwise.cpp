#include "kernels/core/error.h"
#include "kernels/elementwise.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

constexpr std::int64_t kCounts[] = {0, 1, 2, 7, 16, 17, 513, 40001};

TEST(AddGated, IsOneProductAndOneSumPerElement) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t width : {1, 15, 16, 33, 192}) {
      for (const std::int64_t rows : {0, 1, 37}) {
        ExecContext ctx(3);
        const Tensor modulation = random_tensor({2, width + 7}, DType::f32, 1);
        const Tensor y = random_tensor({2, rows, width}, dtype, 2);
        const Tensor start = random_tensor({2, rows, width}, DType::f32, 3);
        Guarded x(start.shape(), DType::f32, 1);
        std::memcpy(x.tensor.bytes().data(), start.bytes().data(),
                    start.num_bytes());
        add_gated(ctx, modulation, 5, y, x.tensor);
        EXPECT_TRUE(x.intact());
        for (std::int64_t i = 0; i < start.num_elements(); ++i) {
          const std::int64_t item = i / (rows * width);
          const float product =
              modulation.data<float>()[item * (width + 7) + 5 + i % width] *
              static_cast<float>(value_at(y, i));
          ASSERT_EQ(x.tensor.data<float>()[i],
                    start.data<float>()[i] + product);
        }
      }
    }
  }
}

TEST(Add, RoundsTheSumOnce) {
  for (const DType to : {DType::f32, DType::bf16}) {
    for (const DType from : {DType::f32, DType::bf16}) {
      for (const std::int64_t count : kCounts) {
        ExecContext ctx(2);
        const Tensor y = random_tensor({count}, from, 1);
        const Tensor start = random_tensor({count}, to, 2);
        Guarded x({count}, to, 1);
        std::memcpy(x.tensor.bytes().data(), start.bytes().data(),
                    start.num_bytes());
        add(ctx, y, x.tensor);
        EXPECT_TRUE(x.intact());
        Tensor expected({count}, to);
        for (std::int64_t i = 0; i < count; ++i) {
          set_value(expected, i,
                    static_cast<float>(value_at(start, i)) +
                        static_cast<float>(value_at(y, i)));
        }
        EXPECT_TRUE(bytes_equal(x.tensor, expected));
      }
    }
  }
}

TEST(AddChannels, AddsAnItemsVectorToEachOfItsPixels) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Shape& shape :
         {Shape{3, 5, 7, 20}, Shape{2, 37, 33}, Shape{2, 1}, Shape{0, 3, 4}}) {
      ExecContext ctx(3);
      const std::int64_t width = shape[shape.rank() - 1];
      const Tensor vectors =
          random_tensor({shape[0], width + 5}, DType::f32, 1);
      const Tensor start = random_tensor(shape, dtype, 2);
      Guarded x(shape, dtype, 1);
      if (!start.empty()) {
        std::memcpy(x.tensor.bytes().data(), start.bytes().data(),
                    start.num_bytes());
      }
      add_channels(ctx, vectors, 2, x.tensor);
      EXPECT_TRUE(x.intact());
      Tensor expected(shape, dtype);
      for (std::int64_t i = 0; i < start.num_elements(); ++i) {
        const std::int64_t item = i / (start.num_elements() / shape[0]);
        set_value(
            expected, i,
            static_cast<float>(value_at(start, i)) +
                vectors.data<float>()[item * (width + 5) + 2 + i % width]);
      }
      EXPECT_TRUE(bytes_equal(x.tensor, expected));
    }
  }
}

TEST(AddChannels, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  Tensor x({2, 3, 4}, DType::f32);
  EXPECT_THROW(add_channels(ctx, Tensor({2, 6}, DType::f32), 3, x), Error);
  EXPECT_THROW(add_channels(ctx, Tensor({2, 6}, DType::f32), -1, x), Error);
  EXPECT_THROW(add_channels(ctx, Tensor({3, 4}, DType::f32), 0, x), Error);
  EXPECT_THROW(add_channels(ctx, Tensor({2, 4}, DType::bf16), 0, x), Error);
  Tensor row({4}, DType::f32);
  EXPECT_THROW(add_channels(ctx, Tensor({1, 4}, DType::f32), 0, row), Error);
}

TEST(Convert, RoundsToNearestEvenLikeBfloat16) {
  ExecContext ctx(2);
  for (const std::int64_t count : kCounts) {
    Tensor x = random_tensor({count}, DType::f32, 1, 1e3);
    if (count > 16) {
      const float special[] = {NAN,         -NAN,      INFINITY, -INFINITY,
                               0.0F,        -0.0F,     1e-40F,   3.39e38F,
                               1.00390625F, 1.0117188F};
      std::memcpy(x.bytes().data(), special, sizeof(special));
    }
    Guarded out({count}, DType::bf16, 1);
    convert(ctx, x, out.tensor);
    EXPECT_TRUE(out.intact());
    for (std::int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(out.tensor.data<bfloat16>()[i].bits,
                bfloat16::from_float(x.data<float>()[i]).bits)
          << x.data<float>()[i];
    }
    Guarded back({count}, DType::f32, 1);
    convert(ctx, out.tensor, back.tensor);
    EXPECT_TRUE(back.intact());
    for (std::int64_t i = 0; i < count; ++i) {
      const float expected = out.tensor.data<bfloat16>()[i].to_float();
      ASSERT_EQ(std::memcmp(&back.tensor.data<float>()[i], &expected, 4), 0);
    }
  }
}

TEST(Convert, WidensHalfExactly) {
  ExecContext ctx;
  Tensor x({4}, DType::f16);
  const float16 values[] = {{0x3c00}, {0xc000}, {0x0001}, {0x7bff}};
  std::memcpy(x.bytes().data(), values, sizeof(values));
  Guarded out({4}, DType::f32);
  convert(ctx, x, out.tensor);
  expect_near(out.tensor, {1, -2, 0x1p-24, 65504}, 0, 0);
  Tensor narrow({4}, DType::bf16);
  EXPECT_THROW(convert(ctx, x, narrow), Error);
}

TEST(Combine, AddsRoundedProductsFromLeftToRight) {
  ExecContext ctx;
  for (const std::int64_t count : kCounts) {
    for (std::size_t num_terms = 1; num_terms <= 8; ++num_terms) {
      std::vector<Tensor> tensors;
      std::vector<Term> terms;
      for (std::size_t t = 0; t < num_terms; ++t) {
        tensors.push_back(
            random_tensor({count}, DType::f32, static_cast<unsigned>(t + 1)));
      }
      for (std::size_t t = 0; t < num_terms; ++t) {
        terms.push_back({0.3 + 0.7 * static_cast<double>(t), &tensors[t]});
      }
      Guarded out({count}, DType::f32, 1);
      combine(ctx, terms, out.tensor);
      EXPECT_TRUE(out.intact());
      for (std::int64_t i = 0; i < count; ++i) {
        // volatile: no compiler setting can contract or reorder these.
        volatile float sum = static_cast<float>(terms[0].coefficient) *
                             tensors[0].data<float>()[i];
        for (std::size_t t = 1; t < num_terms; ++t) {
          volatile float product = static_cast<float>(terms[t].coefficient) *
                                   tensors[t].data<float>()[i];
          sum = sum + product;
        }
        ASSERT_EQ(out.tensor.data<float>()[i], sum);
      }
    }
  }
}

TEST(Combine, MayWriteOverAnyTerm) {
  ExecContext ctx;
  const Tensor a = random_tensor({1500}, DType::f32, 1);
  const Tensor b = random_tensor({1500}, DType::f32, 2);
  Tensor expected({1500}, DType::f32);
  const Term terms[] = {{0.5, &a}, {-1.25, &b}};
  combine(ctx, terms, expected);
  Tensor over_a = a.clone();
  const Term first[] = {{0.5, &over_a}, {-1.25, &b}};
  combine(ctx, first, over_a);
  EXPECT_TRUE(bytes_equal(over_a, expected));
  Tensor over_b = b.clone();
  const Term second[] = {{0.5, &a}, {-1.25, &over_b}};
  combine(ctx, second, over_b);
  EXPECT_TRUE(bytes_equal(over_b, expected));
}

TEST(Combine, RefusesWrongTerms) {
  ExecContext ctx;
  Tensor out({3}, DType::f32);
  EXPECT_THROW(combine(ctx, {}, out), Error);
  const Tensor other({4}, DType::f32);
  const Term wrong[] = {{1.0, &other}};
  EXPECT_THROW(combine(ctx, wrong, out), Error);
  const Tensor x({3}, DType::f32);
  const std::vector<Term> many(9, Term{1.0, &x});
  EXPECT_THROW(combine(ctx, many, out), Error);
}

TEST(Clamp, KeepsNanAndZeroSigns) {
  ExecContext ctx;
  const float inputs[] = {-5, -1, -0.0F, 0.5F, 1, 7, NAN, INFINITY};
  Tensor x = Tensor::from<float>(inputs, {8});
  clamp(ctx, -1, 1, x);
  const float expected[] = {-1, -1, -0.0F, 0.5F, 1, 1};
  EXPECT_EQ(std::memcmp(x.bytes().data(), expected, sizeof(expected)), 0);
  EXPECT_TRUE(std::isnan(value_at(x, 6)));
  EXPECT_EQ(value_at(x, 7), 1.0);
  EXPECT_THROW(clamp(ctx, 1, -1, x), Error);
  EXPECT_THROW(clamp(ctx, NAN, 1, x), Error);
}

TEST(Guide, PushesTheGuidedItemsAndKeepsTheRest) {
  ExecContext ctx;
  const Tensor cond = random_tensor({5, 3, 37}, DType::f32, 1);
  const Tensor uncond = random_tensor({5, 3, 37}, DType::f32, 2);
  for (const std::int64_t guided : {0, 3, 5}) {
    Guarded out(cond.shape(), DType::f32, 1);
    guide(ctx, cond, uncond, 1.7, guided, out.tensor);
    EXPECT_TRUE(out.intact());
    for (std::int64_t i = 0; i < cond.num_elements(); ++i) {
      const float c = cond.data<float>()[i];
      const float u = uncond.data<float>()[i];
      // volatile: no compiler setting can contract these.
      volatile float moved = c - u;
      moved = 1.7F * moved;
      moved = u + moved;
      ASSERT_EQ(out.tensor.data<float>()[i], i < guided * 111 ? moved : c);
    }
  }
  Tensor out(cond.shape(), DType::f32);
  EXPECT_THROW(guide(ctx, cond, uncond, 1, 6, out), Error);
  EXPECT_THROW(guide(ctx, cond, uncond, 1, -1, out), Error);
  EXPECT_THROW(guide(ctx, cond, uncond.slice(0, 4), 1, 1, out), Error);
}

/// The corrected standard deviation, in two passes.
double deviation_of(const Tensor& x) {
  double mean = 0;
  for (const float value : x.span<float>()) {
    mean += value / static_cast<double>(x.num_elements());
  }
  double squares = 0;
  for (const float value : x.span<float>()) {
    squares += (value - mean) * (value - mean);
  }
  return std::sqrt(squares / static_cast<double>(x.num_elements() - 1));
}

TEST(RescaleDeviation, MixesWithWhatHasTheOtherDeviation) {
  ExecContext ctx;
  Tensor like = random_tensor({3, 37}, DType::f32, 1, 0.25);
  for (float& value : like.span<float>()) {
    value += 40;  // far from 0, as the mean of latents may be
  }
  const Tensor start = random_tensor({3, 37}, DType::f32, 2, 3.0);
  const double factor = deviation_of(like) / deviation_of(start);
  for (const double share : {0.0, 0.7, 1.0}) {
    Guarded x(start.shape(), DType::f32, 1);
    std::ranges::copy(start.span<float>(), x.tensor.span<float>().begin());
    rescale_deviation(ctx, like, share, x.tensor);
    EXPECT_TRUE(x.intact());
    for (std::int64_t i = 0; i < start.num_elements(); ++i) {
      const double want = value_at(start, i) * (share * factor + (1 - share));
      ASSERT_NEAR(value_at(x.tensor, i), want, 4e-7 * std::abs(want));
    }
  }
  Tensor whole = start.clone();
  rescale_deviation(ctx, like, 1, whole);
  EXPECT_NEAR(deviation_of(whole), deviation_of(like), 1e-6);
  EXPECT_THROW(rescale_deviation(ctx, like.slice(0, 2), 1, whole), Error);
}

TEST(ScaleByLearnedVariance, MultipliesWithTheDeviation) {
  ExecContext ctx;
  const Tensor start = random_tensor({2, 37}, DType::f32, 1, 3.0);
  const Tensor range = random_tensor({2, 37}, DType::f32, 2);
  Tensor noise = start.clone();
  scale_by_learned_variance(ctx, range, true, -9.5, -1.25, noise);
  for (std::int64_t i = 0; i < noise.num_elements(); ++i) {
    const double part = (value_at(range, i) + 1) / 2;
    const double wanted =
        value_at(start, i) * std::exp(0.5 * (part * -1.25 + (1 - part) * -9.5));
    ASSERT_NEAR(value_at(noise, i), wanted, 2e-6 * std::fabs(wanted));
  }
  Tensor variance = random_tensor({2, 37}, DType::f32, 3);
  for (float& value : variance.span<float>()) {
    value = std::fabs(value);
  }
  noise = start.clone();
  scale_by_learned_variance(ctx, variance, false, 0, 0, noise);
  for (std::int64_t i = 0; i < noise.num_elements(); ++i) {
    ASSERT_EQ(noise.data<float>()[i],
              start.data<float>()[i] * std::sqrt(variance.data<float>()[i]));
  }
  EXPECT_THROW(
      scale_by_learned_variance(ctx, range.slice(0, 1), true, 0, 1, noise),
      Error);
}

TEST(Elementwise, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  Tensor x({1, 2, 3}, DType::f32);
  EXPECT_THROW(add(ctx, Tensor({1, 2, 4}, DType::f32), x), Error);
  EXPECT_THROW(add_gated(ctx, Tensor({1, 3}, DType::f32), 1,
                         Tensor({1, 2, 3}, DType::f32), x),
               Error);
  EXPECT_THROW(convert(ctx, Tensor({1, 2, 3}, DType::u8), x), Error);
}

}  // namespace
}  // namespace troupe::kernels

#include "kernels/activation.h"
#include "kernels/core/error.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

constexpr std::int64_t kActivationCounts[] = {0,  1,  2,  7,    15,
                                              16, 17, 33, 1000, 40001};

void expect_activated(const Tensor& out, const Tensor& x,
                      Activation activation) {
  // Left of −9.99 the exponentials stop short of subnormal numbers.
  constexpr double kNothing = 1e-36;
  const double stored =
      activation == Activation::none && x.dtype() == out.dtype()
          ? 0
          : unit_of(out.dtype());
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    const double input = value_at(x, i);
    const double expected = apply(activation, input);
    const double limit = activation_limit(activation, input, out.dtype());
    ASSERT_LE(std::abs(value_at(out, i) - expected),
              (limit + stored * (1 + limit)) * std::abs(expected) + kNothing)
        << "activation " << static_cast<int>(activation) << " of " << input;
  }
}

TEST(Activate, MatchesADoubleReferenceForEverySizeAndType) {
  for (const Activation activation : kActivations) {
    for (const DType from : {DType::f32, DType::bf16}) {
      for (const DType to : {DType::f32, DType::bf16}) {
        for (const std::int64_t count : kActivationCounts) {
          ExecContext ctx(2);
          const Tensor x = random_tensor({count}, from, 1, 5);
          Guarded out({count}, to, 1);
          activate(ctx, x, activation, out.tensor);
          EXPECT_TRUE(out.intact());
          expect_activated(out.tensor, x, activation);
        }
      }
    }
  }
}

TEST(Activate, IsAccurateOverTheWholeRange) {
  ExecContext ctx;
  Tensor x({200001}, DType::f32);
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    x.data<float>()[i] = static_cast<float>(i - 100000) * 1.5e-4F;
  }
  for (const Activation activation : kActivations) {
    for (const DType to : {DType::f32, DType::bf16}) {
      Tensor out(x.shape(), to);
      activate(ctx, x, activation, out);
      expect_activated(out, x, activation);
    }
  }
}

TEST(Activate, KeepsNanAndFarEnds) {
  ExecContext ctx;
  const float inputs[] = {NAN, 1e30F, -1e30F, 0.0F};
  const Tensor x = Tensor::from<float>(inputs, {4});
  for (const Activation activation :
       {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf,
        Activation::relu, Activation::mish, Activation::gelu_sigmoid}) {
    Tensor out({4}, DType::f32);
    activate(ctx, x, activation, out);
    EXPECT_TRUE(std::isnan(value_at(out, 0)));
    EXPECT_EQ(value_at(out, 1), 1e30F);
    EXPECT_NEAR(value_at(out, 2), 0.0, 1e-30);
    EXPECT_EQ(value_at(out, 3), 0.0);
  }
}

TEST(Activate, MayWriteOverItsInput) {
  ExecContext ctx(2);
  Tensor x = random_tensor({50000}, DType::f32, 2, 4);
  Tensor expected(x.shape(), DType::f32);
  activate(ctx, x, Activation::silu, expected);
  activate(ctx, x, Activation::silu, x);
  EXPECT_TRUE(bytes_equal(x, expected));
}

TEST(Activate, GivesAnElementTheSameBitsAnywhere) {
  ExecContext ctx(3);
  const Tensor x = random_tensor({40001}, DType::f32, 3, 4);
  Tensor all(x.shape(), DType::f32);
  activate(ctx, x, Activation::gelu_erf, all);
  for (const std::int64_t begin : {1, 3, 16383, 39990}) {
    const Tensor part = x.slice(begin, 40001);
    Tensor out(part.shape(), DType::f32);
    activate(ctx, part, Activation::gelu_erf, out);
    EXPECT_TRUE(bytes_equal(out, all.slice(begin, 40001)));
  }
}

TEST(ActivateGated, MatchesADoubleReferenceForEverySizeAndType) {
  for (const Activation activation : kActivations) {
    for (const DType from : {DType::f32, DType::bf16}) {
      for (const DType to : {DType::f32, DType::bf16}) {
        for (const std::int64_t width : {1, 7, 16, 33, 1000, 20001}) {
          ExecContext ctx(2);
          const Tensor x = random_tensor({3, 2, 2 * width}, from, 1, 5);
          Guarded out({3, 2, width}, to, 1);
          activate_gated(ctx, x, activation, out.tensor);
          EXPECT_TRUE(out.intact());
          for (std::int64_t i = 0; i < 6 * width; ++i) {
            const std::int64_t row = i / width;
            const double a = value_at(x, i + row * width);
            const double gate = value_at(x, i + (row + 1) * width);
            const double expected = a * apply(activation, gate);
            const double limit = activation_limit(activation, gate, to) +
                                 unit_of(DType::f32) + unit_of(to);
            ASSERT_LE(std::abs(value_at(out.tensor, i) - expected),
                      1.01 * limit * std::abs(expected) + 1e-35)
                << "activation " << static_cast<int>(activation) << " of "
                << gate;
          }
        }
      }
    }
  }
}

TEST(ActivateGated, GivesARowTheSameBitsAnywhere) {
  ExecContext one;
  ExecContext ctx(3);
  const Tensor x = random_tensor({301, 2 * 77}, DType::f32, 3, 4);
  for (const Activation activation : kActivations) {
    for (const DType to : {DType::f32, DType::bf16}) {
      Tensor all({301, 77}, to);
      activate_gated(ctx, x, activation, all);
      for (const std::int64_t begin : {0, 1, 150, 300}) {
        Tensor out({301 - begin, 77}, to);
        activate_gated(one, x.slice(begin, 301), activation, out);
        EXPECT_TRUE(bytes_equal(out, all.slice(begin, 301)))
            << "activation " << static_cast<int>(activation) << ", rows from "
            << begin;
      }
    }
  }
}

TEST(ActivateGated, RefusesOtherShapesAndTypes) {
  ExecContext ctx;
  Tensor out({2, 3}, DType::f32);
  for (const Shape& shape :
       {Shape{2, 3}, Shape{6, 2}, Shape{3, 6}, Shape{12}, Shape{1, 2, 6}}) {
    EXPECT_THROW(
        activate_gated(ctx, Tensor(shape, DType::f32), Activation::silu, out),
        Error);
  }
  EXPECT_THROW(
      activate_gated(ctx, Tensor({2, 6}, DType::i64), Activation::silu, out),
      Error);
}

TEST(Activate, RefusesOtherShapesAndTypes) {
  ExecContext ctx;
  Tensor out({3}, DType::f32);
  EXPECT_THROW(activate(ctx, Tensor({4}, DType::f32), Activation::silu, out),
               Error);
  EXPECT_THROW(activate(ctx, Tensor({3}, DType::i64), Activation::silu, out),
               Error);
}

}  // namespace
}  // namespace troupe::kernels

#include "kernels/activation.h"
#include "kernels/core/error.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

constexpr std::int64_t kCounts[] = {0, 1, 2, 7, 15, 16, 17, 33, 1000, 40001};

TEST(Activate, MatchesADoubleReferenceForEverySizeAndType) {
  for (const Activation activation : kActivations) {
    for (const DType from : {DType::f32, DType::bf16}) {
      for (const DType to : {DType::f32, DType::bf16}) {
        for (const std::int64_t count : kCounts) {
          ExecContext ctx(2);
          const Tensor x = random_tensor({count}, from, 1, 5);
          std::vector<double> expected;
          for (const double value : values_of(x)) {
            expected.push_back(apply(activation, value));
          }
          Guarded out({count}, to, 1);
          activate(ctx, x, activation, out.tensor);
          EXPECT_TRUE(out.intact());
          expect_near(out.tensor, expected,
                      to == DType::bf16 ? unit_of(to) + 3e-4 : 1.5e-6, 1e-8);
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
    Tensor out(x.shape(), DType::f32);
    activate(ctx, x, activation, out);
    // The tanh form's exponent is a cubic whose rounding grows with x.
    const double near = activation == Activation::gelu_tanh ? -3 : -8;
    double worst_near = 0;
    double worst_far = 0;
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      const double input = value_at(x, i);
      const double expected = apply(activation, input);
      const double error = std::abs(value_at(out, i) - expected);
      if (input > near) {
        worst_near = std::max(worst_near, error / (std::abs(expected) + 1e-30));
      } else {
        worst_far = std::max(worst_far, error);
      }
    }
    EXPECT_LE(worst_near, 1e-6) << static_cast<int>(activation);
    EXPECT_LE(worst_far, 2e-8) << static_cast<int>(activation);
  }
}

TEST(Activate, KeepsNanAndFarEnds) {
  ExecContext ctx;
  const float inputs[] = {NAN, 1e30F, -1e30F, 0.0F};
  const Tensor x = Tensor::from<float>(inputs, {4});
  for (const Activation activation :
       {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf}) {
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

TEST(Activate, RefusesOtherShapesAndTypes) {
  ExecContext ctx;
  Tensor out({3}, DType::f32);
  EXPECT_THROW(activate(ctx, Tensor({4}, DType::f32), Activation::silu, out),
               Error);
  EXPECT_THROW(activate(ctx, Tensor({3}, DType::i64), Activation::silu, out),
               Error);
}

TEST(Softmax, MatchesADoubleReference) {
  for (const std::int64_t rows : {0, 1, 3, 200}) {
    for (const std::int64_t columns : {0, 1, 2, 15, 16, 17, 77, 1025}) {
      ExecContext ctx(2);
      const Tensor x = random_tensor({rows, columns}, DType::f32, 4, 20);
      std::vector<double> expected;
      for (std::int64_t r = 0; r < rows; ++r) {
        double total = 0;
        for (std::int64_t c = 0; c < columns; ++c) {
          total += std::exp(value_at(x, r * columns + c));
        }
        for (std::int64_t c = 0; c < columns; ++c) {
          expected.push_back(std::exp(value_at(x, r * columns + c)) / total);
        }
      }
      Guarded out({rows, columns}, DType::f32, 1);
      softmax(ctx, x, out.tensor);
      EXPECT_TRUE(out.intact());
      expect_near(out.tensor, expected, 6e-6, 1e-30);
      Tensor own = x.clone();
      softmax(ctx, own, own);
      EXPECT_TRUE(bytes_equal(own, out.tensor));
    }
  }
}

TEST(Softmax, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  Tensor out({3}, DType::f32);
  EXPECT_THROW(softmax(ctx, Tensor({4}, DType::f32), out), Error);
  EXPECT_THROW(softmax(ctx, Tensor({3}, DType::bf16), out), Error);
}

}  // namespace
}  // namespace troupe::kernels

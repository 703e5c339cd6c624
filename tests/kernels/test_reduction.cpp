#include "kernels/core/error.h"
#include "kernels/elementwise.h"
#include "kernels/reduction.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

constexpr std::int64_t kReductionCounts[] = {0, 1, 2, 7, 16, 17, 513, 40001};

/// Eight lanes, added pairwise.
double total(const double* s) {
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

TEST(Readings, SumsMatchTheEightLaneOrder) {
  ExecContext ctx;
  for (const std::int64_t count : kReductionCounts) {
    const Tensor a = random_tensor({count}, DType::f32, 1);
    const Tensor b = random_tensor({count}, DType::f32, 2);
    double squares[8] = {};
    double differences[8] = {};
    for (std::int64_t i = 0; i < count; ++i) {
      const double d = value_at(a, i) - value_at(b, i);
      squares[i % 8] += value_at(a, i) * value_at(a, i);
      differences[i % 8] += d * d;
    }
    Readings readings(ctx, 2);
    EXPECT_EQ(readings.sum_squares(a), 0U);
    EXPECT_EQ(readings.sum_squared_difference(a, b), 1U);
    EXPECT_EQ(readings.wait()[0], total(squares));
    EXPECT_EQ(readings.wait()[1], total(differences));
  }
}

TEST(Readings, FindOneElementThatIsNotFiniteAnywhere) {
  ExecContext ctx;
  Tensor x = random_tensor({37}, DType::f32, 1, 3e38);
  Readings fine(ctx, 2);
  fine.all_finite(Tensor({0}, DType::f32));
  fine.all_finite(x);
  EXPECT_EQ(fine.wait()[0], 1.0);
  EXPECT_EQ(fine.wait()[1], 1.0);
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    Readings readings(ctx, 37);
    for (std::int64_t i = 0; i < 37; ++i) {
      Tensor copy = x.clone();
      copy.data<float>()[i] = bad;
      readings.all_finite(copy);
    }
    for (const double value : readings.wait()) {
      EXPECT_EQ(value, 0.0);
    }
  }
}

TEST(Readings, CompareBytesAndNotValues) {
  ExecContext ctx;
  const float values[] = {0.0F, NAN, 1.0F};
  const float negative[] = {-0.0F, NAN, 1.0F};
  const Tensor a = Tensor::from<float>(values, {3});
  Readings readings(ctx, 3);
  readings.bytes_equal(a, a.clone());
  readings.bytes_equal(a, Tensor::from<float>(negative, {3}));
  readings.bytes_equal(Tensor({0}, DType::f32), Tensor({0}, DType::f32));
  const auto read = readings.wait();
  EXPECT_EQ(read[0], 1.0);
  EXPECT_EQ(read[1], 0.0);
  EXPECT_EQ(read[2], 1.0);
}

TEST(Readings, OnTheCpuAreThereWithoutAWait) {
  ExecContext ctx;
  Readings readings(ctx, 2);
  readings.send();
  EXPECT_EQ(readings.values().size(), 0U);
  readings.all_finite(Tensor::zeros({3}, DType::f32));
  readings.sum_squares(Tensor::zeros({3}, DType::f32));
  readings.send();
  const auto values = readings.values();
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values[0], 1.0);
  EXPECT_EQ(values[1], 0.0);
}

TEST(Readings, RefuseWhatDoesNotFit) {
  ExecContext ctx;
  const Tensor x = Tensor::zeros({3}, DType::f32);
  const Tensor other = Tensor::zeros({4}, DType::f32);
  Readings readings(ctx, 1);
  EXPECT_THROW(readings.sum_squared_difference(x, other), Error);
  EXPECT_THROW(readings.bytes_equal(x, other), Error);
  EXPECT_THROW(readings.all_finite(Tensor::zeros({3}, DType::bf16)), Error);
  EXPECT_THROW(readings.sum_squares(Tensor::zeros({3}, DType::u8)), Error);
  EXPECT_EQ(readings.wait().size(), 0U);
  readings.all_finite(x);
  try {
    readings.all_finite(x);
    FAIL() << "more numbers than announced";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::internal);
  }
  EXPECT_EQ(readings.wait().size(), 1U);
}

// The arithmetic of sweeps before add_carry existed, with the same roundings.
Tensor carried(ExecContext& ctx, const Tensor& step, double carry,
               const Tensor& x_new, const Tensor& x_old) {
  Tensor moved(step.shape(), DType::f32);
  const Term difference[] = {{1.0, &x_new}, {-1.0, &x_old}};
  combine(ctx, difference, moved);
  const Term sum[] = {{1.0, &step}, {carry, &moved}};
  combine(ctx, sum, moved);
  return moved;
}

TEST(AddCarry, HasTheBitsOfADifferenceAProductAndASum) {
  ExecContext ctx;
  for (const std::int64_t count : kReductionCounts) {
    for (const double carry : {1.0, 0.9371, -0.25, 0.0}) {
      const Tensor step = random_tensor({count}, DType::f32, 1);
      const Tensor x_new = random_tensor({count}, DType::f32, 2, 7.0);
      const Tensor x_old = random_tensor({count}, DType::f32, 3, 7.0);
      const Tensor expected = carried(ctx, step, carry, x_new, x_old);
      Guarded out({count}, DType::f32, 1);
      add_carry(ctx, step, carry, x_new, x_old, out.tensor);
      EXPECT_TRUE(out.intact());
      EXPECT_TRUE(bytes_equal(out.tensor, expected));
      Tensor over_step = step.clone();
      add_carry(ctx, over_step, carry, x_new, x_old, over_step);
      EXPECT_TRUE(bytes_equal(over_step, expected));
    }
  }
}

TEST(AddCarry, AddsNothingWhereTheInputsHaveTheSameBytes) {
  ExecContext ctx;
  // Adding zero would turn the first into 0 and the second into NaN.
  const float steps[] = {-0.0F, INFINITY, 1.5F};
  const float inputs[] = {INFINITY, NAN, 2.0F};
  const Tensor step = Tensor::from<float>(steps, {3});
  const Tensor x = Tensor::from<float>(inputs, {3});
  Guarded out({3}, DType::f32, 1);
  add_carry(ctx, step, 1.0, x, x.clone(), out.tensor);
  EXPECT_TRUE(out.intact());
  EXPECT_TRUE(bytes_equal(out.tensor, step));
  Tensor over_step = step.clone();
  add_carry(ctx, over_step, 1.0, x, x, over_step);
  EXPECT_TRUE(bytes_equal(over_step, step));
}

TEST(AddCarry, TakesZerosOfUnlikeSignsForAMove) {
  ExecContext ctx;
  const float zero[] = {0.0F};
  const float minus[] = {-0.0F};
  const Tensor step = Tensor::from<float>(minus, {1});
  Tensor out({1}, DType::f32);
  // −0 + (0 − −0) = 0: the bytes of the inputs differ, so it is added.
  add_carry(ctx, step, 1.0, Tensor::from<float>(zero, {1}),
            Tensor::from<float>(minus, {1}), out);
  EXPECT_FALSE(std::signbit(out.data<float>()[0]));
}

TEST(AddCarry, RefusesShapesThatDiffer) {
  ExecContext ctx;
  const Tensor x = Tensor::zeros({3}, DType::f32);
  const Tensor other = Tensor::zeros({4}, DType::f32);
  Tensor out({3}, DType::f32);
  EXPECT_THROW(add_carry(ctx, other, 1.0, x, x, out), Error);
  EXPECT_THROW(add_carry(ctx, x, 1.0, other, x, out), Error);
  EXPECT_THROW(add_carry(ctx, x, 1.0, x, other, out), Error);
  Tensor wide({4}, DType::f32);
  EXPECT_THROW(add_carry(ctx, x, 1.0, x, x, wide), Error);
}

}  // namespace
}  // namespace troupe::kernels

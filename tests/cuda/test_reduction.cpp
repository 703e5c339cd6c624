#include <cmath>
#include <functional>
#include <vector>

#include "kernels/cuda/ops.h"
#include "tests/cuda/views.h"

namespace troupe::kernels {
namespace {

// Around a thread's four elements, a block's 16384 and two blocks'.
constexpr std::int64_t kReductionCounts[] = {
    0, 1, 3, 4, 5, 4096, 16383, 16384, 16385, 32771, 70001};

class ReductionOnGpu : public CudaTest {};

/// What fn(values, index) writes to place `index` of a few.
double value_of_reading(ExecContext& ctx, std::size_t index,
                        const std::function<void(Tensor&)>& fn) {
  Tensor values = poisoned(ctx, {5, 8}, DType::u8);
  fn(values);
  const Tensor host = download(ctx, values);
  double value = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    std::memcpy(&value, host.bytes().data() + 8 * i, sizeof(value));
    EXPECT_TRUE(i == index || std::isnan(value)) << i;
  }
  std::memcpy(&value, host.bytes().data() + 8 * index, sizeof(value));
  return value;
}

TEST_F(ReductionOnGpu, SumsAreThoseOfDoubleWhereverTheTensorLies) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 0;
  for (const std::int64_t count : kReductionCounts) {
    const Tensor a = random({count}, DType::f32, ++seed);
    const Tensor b = random({count}, DType::f32, ++seed);
    double squares = 0;
    double differences = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double left = a.data<float>()[i];
      const double right = b.data<float>()[i];
      squares += left * left;
      differences += (left - right) * (left - right);
    }
    std::vector<double> got_squares;
    std::vector<double> got_differences;
    for (const std::int64_t shift : {0, 1, 3, 4}) {
      const Tensor left = shifted_upload(ctx, a, shift);
      const Tensor right = shifted_upload(ctx, b, 0);
      got_squares.push_back(value_of_reading(ctx, 2, [&](Tensor& values) {
        cuda::sum_squares(ctx, left, values, 2);
      }));
      got_differences.push_back(value_of_reading(ctx, 4, [&](Tensor& values) {
        cuda::sum_squared_difference(ctx, left, right, values, 4);
      }));
      EXPECT_NEAR(got_squares.back(), squares, 1e-13 * squares);
      EXPECT_NEAR(got_differences.back(), differences, 1e-13 * differences);
      // In the same order, aligned or not.
      EXPECT_EQ(got_squares.back(), got_squares.front());
      EXPECT_EQ(got_differences.back(), got_differences.front());
    }
  }
}

TEST_F(ReductionOnGpu, SumsOfSeveralBlocksHaveOneOrder) {
  ExecContext ctx(1, kGpu);
  const Tensor a = random({100003}, DType::f32, 1, 1e3F);
  const Tensor device = upload(ctx, a);
  const auto read = [&] {
    return value_of_reading(ctx, 0, [&](Tensor& values) {
      cuda::sum_squares(ctx, device, values, 0);
    });
  };
  const double first = read();
  EXPECT_EQ(read(), first);
  EXPECT_EQ(read(), first);
}

TEST_F(ReductionOnGpu, SumsCarryNan) {
  ExecContext ctx(1, kGpu);
  for (const std::int64_t at : {0, 39999, 40000}) {
    Tensor a = random({40001}, DType::f32, 1);
    a.data<float>()[at] = std::nanf("");
    EXPECT_TRUE(std::isnan(value_of_reading(ctx, 1, [&](Tensor& values) {
      cuda::sum_squares(ctx, upload(ctx, a), values, 1);
    })));
  }
}

TEST_F(ReductionOnGpu, BytesEqualSeesEveryByte) {
  ExecContext ctx(1, kGpu);
  const auto equal = [&](const Tensor& a, const Tensor& b, std::int64_t shift_a,
                         std::int64_t shift_b) {
    return value_of_reading(ctx, 3, [&](Tensor& values) {
      cuda::bytes_equal(ctx, shifted_upload(ctx, a, shift_a),
                        shifted_upload(ctx, b, shift_b), values, 3);
    });
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t count : {0, 1, 7, 8, 37, 70001}) {
      const Tensor a = random({count}, dtype, 1);
      for (const std::int64_t shift : {0, 1, 4}) {
        EXPECT_EQ(equal(a, a, shift, 0), 1.0);
        EXPECT_EQ(equal(a, a, shift, shift), 1.0);
        const auto bytes = static_cast<std::int64_t>(a.num_bytes());
        for (const std::int64_t byte :
             {std::int64_t{0}, bytes / 2, bytes - 2, bytes - 1}) {
          if (byte < 0 || byte >= bytes) {
            continue;
          }
          Tensor b = a.clone();
          b.bytes()[static_cast<std::size_t>(byte)] ^= std::byte{0x80};
          EXPECT_EQ(equal(a, b, shift, 0), 0.0) << count << " " << byte;
        }
      }
    }
  }
}

TEST_F(ReductionOnGpu, BytesEqualTellsZerosApartAndNansAlike) {
  ExecContext ctx(1, kGpu);
  const float left[] = {0.0F, std::nanf("")};
  const float right[] = {-0.0F, std::nanf("")};
  const Tensor a = upload(ctx, Tensor::from<float>(left, {2}));
  const Tensor b = upload(ctx, Tensor::from<float>(right, {2}));
  EXPECT_EQ(value_of_reading(ctx, 0,
                             [&](Tensor& values) {
                               cuda::bytes_equal(ctx, a, b, values, 0);
                             }),
            0.0);
  EXPECT_EQ(value_of_reading(ctx, 0,
                             [&](Tensor& values) {
                               cuda::bytes_equal(ctx, a.slice(1, 2),
                                                 b.slice(1, 2), values, 0);
                             }),
            1.0);
}

TEST_F(ReductionOnGpu, AllFiniteFindsOneBadElementAnywhere) {
  ExecContext ctx(1, kGpu);
  const auto finite = [&](const Tensor& x, std::int64_t shift) {
    return value_of_reading(ctx, 1, [&](Tensor& values) {
      cuda::all_finite(ctx, shifted_upload(ctx, x, shift), values, 1);
    });
  };
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const std::int64_t count : {0, 1, 5, 4096, 16387, 70001}) {
    Tensor x = random({count}, DType::f32, 1);
    if (count > 0) {
      x.data<float>()[count / 3] = std::numeric_limits<float>::max();
    }
    for (const std::int64_t shift : {0, 1}) {
      EXPECT_EQ(finite(x, shift), 1.0);
      for (const float bad : {kInf, -kInf, std::nanf(""), -std::nanf("")}) {
        for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1}) {
          if (at >= 0 && at < count) {
            Tensor spoilt = x.clone();
            spoilt.data<float>()[at] = bad;
            EXPECT_EQ(finite(spoilt, shift), 0.0) << count << " " << at;
          }
        }
      }
    }
  }
}

TEST_F(ReductionOnGpu, RefusesAPlaceThatIsNotThere) {
  ExecContext ctx(1, kGpu);
  Tensor values = poisoned(ctx, {2, 8}, DType::u8);
  const Tensor x = upload(ctx, random({4}, DType::f32, 1));
  EXPECT_THROW(cuda::sum_squares(ctx, x, values, 2), Error);
}

Tensor carried(const Tensor& step, float carry, const Tensor& x_new,
               const Tensor& x_old) {
  Tensor want = step.clone();
  if (bytes_equal(x_new, x_old)) {
    return want;
  }
  for (std::int64_t i = 0; i < step.num_elements(); ++i) {
    volatile float moved = x_new.data<float>()[i] - x_old.data<float>()[i];
    volatile float product = carry * moved;
    want.data<float>()[i] = want.data<float>()[i] + product;
  }
  return want;
}

TEST_F(ReductionOnGpu, CarryIsDecidedOnTheDeviceWithTheBitsOfTheCpu) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 0;
  constexpr float kCarry = 0.77F;
  for (const std::int64_t count : kReductionCounts) {
    for (const std::int64_t shift : {0, 1}) {
      Tensor step = random({count}, DType::f32, ++seed);
      if (count > 0) {
        step.data<float>()[count - 1] = -0.0F;
      }
      const Tensor x_old = random({count}, DType::f32, ++seed);
      const Tensor other = random({count}, DType::f32, ++seed);
      Tensor one_differs = x_old.clone();
      if (count > 0) {
        one_differs.data<float>()[count - 1] += 1.0F;
      }
      const std::initializer_list<const Tensor*> all = {&x_old, &other,
                                                        &one_differs};
      for (const Tensor* x_new : all) {
        GuardedOutput out(ctx, {count}, DType::f32, shift);
        Tensor inout = upload(ctx, step);
        const Tensor moved = upload(ctx, *x_new);
        const Tensor stood = upload(ctx, x_old);
        cuda::add_carry(ctx, inout, kCarry, moved, stood, out.tensor);
        const Tensor want = carried(step, kCarry, *x_new, x_old);
        expect_same_bits(download(ctx, out.tensor), want);
        EXPECT_TRUE(out.intact(ctx));
        cuda::add_carry(ctx, inout, kCarry, moved, stood, inout);
        expect_same_bits(download(ctx, inout), want);
      }
    }
  }
}

}  // namespace
}  // namespace troupe::kernels

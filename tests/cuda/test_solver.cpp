#include <vector>

#include "kernels/cpu/ops.h"
#include "kernels/cuda/ops.h"
#include "tests/cuda/views.h"

// The arithmetic of solver steps: the bits of the CPU.

namespace troupe::kernels {
namespace {

constexpr std::int64_t kSolverCounts[] = {0, 1, 4, 7, 1024, 1025, 4096, 16387};

class SolverOnGpu : public CudaTest {};

TEST_F(SolverOnGpu, CombineHasTheBitsOfTheCpu) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 0;
  for (const std::int64_t count : kSolverCounts) {
    for (const std::int64_t shift : {0, 1, 2}) {
      for (std::size_t num_terms = 1; num_terms <= 8; ++num_terms) {
        std::vector<Tensor> hosts;
        std::vector<Tensor> tensors;
        for (std::size_t t = 0; t < num_terms; ++t) {
          hosts.push_back(random({count}, DType::f32, ++seed));
          // Not all of them start at an aligned address.
          tensors.push_back(shifted_upload(ctx, hosts.back(),
                                           t + 1 == num_terms ? shift : 0));
        }
        std::vector<Term> host_terms;
        std::vector<Term> terms;
        for (std::size_t t = 0; t < num_terms; ++t) {
          const double coefficient = 0.3 - 0.7 * static_cast<double>(t);
          host_terms.push_back({coefficient, &hosts[t]});
          terms.push_back({coefficient, &tensors[t]});
        }
        Tensor want({count}, DType::f32);
        cpu::combine(host_terms, want);
        GuardedOutput out(ctx, {count}, DType::f32, 0);
        cuda::combine(ctx, terms, out.tensor);
        expect_same_bits(download(ctx, out.tensor), want);
        EXPECT_TRUE(out.intact(ctx));
      }
    }
  }
}

TEST_F(SolverOnGpu, CombineMayWriteOverAnyTerm) {
  ExecContext ctx(1, kGpu);
  const Tensor a = random({1503}, DType::f32, 1);
  const Tensor b = random({1503}, DType::f32, 2);
  Tensor want({1503}, DType::f32);
  const Term host_terms[] = {{0.5, &a}, {-1.25, &b}, {3.0, &a}};
  cpu::combine(host_terms, want);
  Tensor left = upload(ctx, a);
  Tensor right = upload(ctx, b);
  const Term over_left[] = {{0.5, &left}, {-1.25, &right}, {3.0, &left}};
  cuda::combine(ctx, over_left, left);
  expect_same_bits(download(ctx, left), want);
  left = upload(ctx, a);
  const Term over_right[] = {{0.5, &left}, {-1.25, &right}, {3.0, &left}};
  cuda::combine(ctx, over_right, right);
  expect_same_bits(download(ctx, right), want);
}

TEST_F(SolverOnGpu, ClampHasTheBitsOfTheCpuAndKeepsNan) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 0;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const std::int64_t count : kSolverCounts) {
    for (const std::int64_t shift : {0, 3}) {
      Tensor host = random({count}, DType::f32, ++seed, 2);
      constexpr float kSpecial[] = {-0.0F, 0.0F, kInf, -kInf, 1.0F, -1.0F};
      if (count > 6) {
        std::memcpy(host.bytes().data(), kSpecial, sizeof(kSpecial));
        host.data<float>()[6] = std::nanf("0x123");
      }
      Tensor x = shifted_upload(ctx, host, shift);
      cuda::clamp(ctx, -1, 1, x);
      if (count > 0) {
        cpu::clamp(-1, 1, host);
      }
      expect_same_bits(download(ctx, x), host);
      cuda::clamp(ctx, 0, 0.5F, x);
      if (count > 0) {
        cpu::clamp(0, 0.5F, host);
      }
      expect_same_bits(download(ctx, x), host);
    }
  }
}

TEST_F(SolverOnGpu, GuideHasTheBitsOfTheLoop) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 0;
  for (const std::int64_t count : kSolverCounts) {
    for (const std::int64_t guided : {std::int64_t{0}, count / 2, count}) {
      for (const std::int64_t shift : {0, 1}) {
        const Tensor c = random({count}, DType::f32, ++seed);
        const Tensor u = random({count}, DType::f32, ++seed);
        constexpr float kScale = 7.3F;
        Tensor want = c.clone();
        for (std::int64_t i = 0; i < guided; ++i) {
          volatile float difference = c.data<float>()[i] - u.data<float>()[i];
          volatile float product = kScale * difference;
          want.data<float>()[i] = u.data<float>()[i] + product;
        }
        GuardedOutput out(ctx, {count}, DType::f32, shift);
        cuda::guide(ctx, upload(ctx, c), upload(ctx, u), kScale, guided,
                    out.tensor);
        expect_same_bits(download(ctx, out.tensor), want);
        EXPECT_TRUE(out.intact(ctx));
      }
    }
  }
}

TEST_F(SolverOnGpu, RescaleDeviationIsNearTheCpu) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 0;
  for (const std::int64_t count : kSolverCounts) {
    for (const std::int64_t shift : {0, 1}) {
      if (count < 2) {
        continue;  // one number has no deviation
      }
      const Tensor like = random({count}, DType::f32, ++seed, 0.5);
      const Tensor start = random({count}, DType::f32, ++seed, 2);
      Tensor want = start.clone();
      cpu::rescale_deviation(like, 0.7, want);
      Tensor x = shifted_upload(ctx, start, shift);
      cuda::rescale_deviation(ctx, upload(ctx, like), 0.7, x);
      const Tensor got = download(ctx, x);
      for (std::int64_t i = 0; i < count; ++i) {
        const double value = want.data<float>()[i];
        ASSERT_NEAR(got.data<float>()[i], value, 4e-7 * std::abs(value));
      }
    }
  }
}

TEST_F(SolverOnGpu, LearnedVarianceHasTheBitsOfTheCpu) {
  ExecContext ctx(1, kGpu);
  std::uint64_t seed = 0;
  const float low = std::log(1e-4F);
  const float high = std::log(2e-2F);
  for (const std::int64_t count : kSolverCounts) {
    for (const std::int64_t shift : {0, 1}) {
      for (const bool is_range : {false, true}) {
        Tensor variance = random({count}, DType::f32, ++seed);
        const Tensor start = random({count}, DType::f32, ++seed);
        for (std::int64_t i = 0; i < count; ++i) {
          float& v = variance.data<float>()[i];
          // Deviations from denormal ones to infinity, too.
          v = !is_range ? std::abs(v) : i % 3 == 0 ? 100 * v : v;
        }
        Tensor want = start.clone();
        cpu::scale_by_learned_variance(variance, is_range, low, high, want);
        Tensor noise = shifted_upload(ctx, start, shift);
        cuda::scale_by_learned_variance(ctx, upload(ctx, variance), is_range,
                                        low, high, noise);
        expect_same_bits(download(ctx, noise), want);
      }
    }
  }
}

}  // namespace
}  // namespace troupe::kernels

#include <gtest/gtest.h>

#include <cmath>

#include "samplers/noise_source.h"
#include "samplers/schedule.h"
#include "samplers/solver.h"

namespace troupe::samplers {
namespace {

struct Moments {
  double mean;
  double variance;
};

Moments moments_of(const Tensor& tensor) {
  double sum = 0.0;
  double squares = 0.0;
  for (const float value : tensor.span<float>()) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto count = static_cast<double>(tensor.num_elements());
  return {sum / count, squares / count - sum / count * (sum / count)};
}

/// The noise that is expected in x when data are N(mean, deviation²): the
/// exact score, affine in x.
Tensor expected_noise(const NoiseLevel& at, double mean, double deviation,
                      const Tensor& x) {
  const double total =
      at.alpha * at.alpha * deviation * deviation + at.sigma * at.sigma;
  Tensor out(x.shape(), DType::f32);
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    out.data<float>()[i] = static_cast<float>(
        at.sigma / total * (x.data<float>()[i] - at.alpha * mean));
  }
  return out;
}

/// Runs all 1000 steps on 16,384 pixels.
Moments sampled(ScheduleOptions options, double mean, double deviation) {
  options.num_inference_steps = 1000;
  options.clip_sample = false;
  const Schedule schedule(options);
  PhiloxNoise noise(20);
  Tensor unit({1, 128, 128}, DType::f32);
  noise.initial(0, unit);
  ExecContext ctx;
  SolverState state = initial_state(ctx, schedule, unit);
  for (int call = 0; call < schedule.num_model_calls(); ++call) {
    const Tensor output =
        expected_noise(schedule.level(call), mean, deviation, state.latents);
    state = step(ctx, schedule, call, call + 1, state, output, 0, noise);
  }
  return moments_of(state.latents);
}

// Standard errors at 16,384 pixels: deviation/128 for the mean, 1.1 % for the
// variance; the bounds are four of them and the discretisation of 1000 steps.

TEST(DdpmMarginals, FixedSmallReachesAGaussianTarget) {
  ScheduleOptions options;
  options.solver = Solver::ddpm;
  const Moments found = sampled(options, 0.7, 0.5);
  EXPECT_NEAR(found.mean, 0.7, 0.02);
  EXPECT_NEAR(found.variance, 0.25, 0.25 * 0.06);
}

TEST(DdpmMarginals, FixedLargeReachesUnitVarianceData) {
  ScheduleOptions options;
  options.solver = Solver::ddpm;
  options.variance_type = VarianceType::fixed_large;
  const Moments found = sampled(options, -0.4, 1.0);
  EXPECT_NEAR(found.mean, -0.4, 0.035);
  EXPECT_NEAR(found.variance, 1.0, 0.06);
}

TEST(DdimMarginals, FullyStochasticStepsReachTheSameTarget) {
  ScheduleOptions options;
  options.solver = Solver::ddim;
  options.eta = 1.0;
  const Moments found = sampled(options, 0.7, 0.5);
  EXPECT_NEAR(found.mean, 0.7, 0.02);
  EXPECT_NEAR(found.variance, 0.25, 0.25 * 0.06);
}

TEST(EulerAncestralMarginals, ReachTheSameTarget) {
  ScheduleOptions options;
  options.solver = Solver::euler_ancestral;
  const Moments found = sampled(options, 0.7, 0.5);
  EXPECT_NEAR(found.mean, 0.7, 0.02);
  EXPECT_NEAR(found.variance, 0.25, 0.25 * 0.06);
}

TEST(SdeDpmSolverMarginals, ReachTheSameTarget) {
  ScheduleOptions options;
  options.solver = Solver::dpmpp;
  options.algorithm = DpmAlgorithm::sde_dpmsolver_pp;
  options.timesteps.clear();
  for (int t = 999; t > 0; t -= 2) {
    options.timesteps.push_back(t);
  }
  const Moments found = sampled(options, 0.7, 0.5);
  EXPECT_NEAR(found.mean, 0.7, 0.02);
  EXPECT_NEAR(found.variance, 0.25, 0.25 * 0.06);
}

}  // namespace
}  // namespace troupe::samplers

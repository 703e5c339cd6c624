#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "samplers/noise_source.h"
#include "samplers/schedule.h"
#include "samplers/solver.h"
#include "tests/samplers/trajectory.h"

namespace troupe::samplers {
namespace {

/// The noise nobody may ask for: deterministic solvers only.
class NoNoise final : public NoiseSource {
 public:
  void initial(std::uint64_t /*sample*/, Tensor& /*out*/) override { FAIL(); }
  void step(std::uint64_t /*sample*/, int /*call*/, Tensor& /*out*/) override {
    FAIL();
  }
  double uniform(std::uint64_t /*sample*/, int /*call*/) override {
    ADD_FAILURE();
    return 0.5;
  }
};

std::vector<double> scalar_loop(const ScheduleOptions& options) {
  const Schedule schedule(options);
  NoNoise noise;
  const std::vector<float> one = {1.0F};
  std::vector<double> path;
  for (const Tensor& point :
       testing::run(schedule, {"linear", 0.1F},
                    Tensor::from<float>(one, {1, 1, 1}), noise)) {
    path.push_back(point.span<float>()[0]);
  }
  path.erase(path.begin());
  return path;
}

void expect_path(const std::vector<double>& ours,
                 const std::vector<double>& theirs, double tolerance) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_NEAR(ours[i], theirs[i], tolerance) << i;
  }
}

TEST(DpmSolverLoop, FollowsTheGoldenTrajectory) {
  ScheduleOptions options;
  options.solver = Solver::dpmpp;
  options.num_inference_steps = 20;
  expect_path(scalar_loop(options),
              {1.572939,  2.39988,   3.573966,  5.20098,   7.397447,
               10.283836, 13.973402, 18.557037, 24.085114, 30.410048,
               37.704914, 45.67297,  54.041714, 62.449432, 70.465172,
               77.621521, 83.457436, 87.565002, 89.629707, 89.429886},
              1e-4);
}

TEST(UniPcLoop, FollowsTheGoldenFlowTrajectory) {
  ScheduleOptions options;
  options.solver = Solver::unipc;
  options.num_inference_steps = 10;
  options.use_flow_sigmas = true;
  options.flow_shift = 3.0;
  options.prediction_type = PredictionType::flow_prediction;
  expect_path(scalar_loop(options),
              {.996432, .992338, .987588, .982002, .975341, .967264, .957266,
               .944575, .927964, .904592},
              2e-6);
}

TEST(DdimStep, MatchesTheGoldenFirstAndLastStep) {
  ScheduleOptions options;
  options.clip_sample = false;
  const Schedule schedule(options);
  NoNoise noise;
  SolverState state;
  state.latents = Tensor::from<float>(std::vector<float>{1.0F}, {1, 1, 1});
  const Tensor half = Tensor::from<float>(std::vector<float>{0.5F}, {1, 1, 1});
  ExecContext ctx;
  EXPECT_NEAR(
      step(ctx, schedule, 0, 1, state, half, 0, noise).latents.span<float>()[0],
      1.108403, 1e-5);
  EXPECT_NEAR(step(ctx, schedule, 49, 50, state, half, 0, noise)
                  .latents.span<float>()[0],
              0.995049, 1e-6);
}

}  // namespace
}  // namespace troupe::samplers

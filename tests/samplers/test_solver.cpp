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
};

/// Image `index` of the ramp over [4, 3, 8, 8] that diffusers' scheduler tests
/// start from.
Tensor ramp(int index) {
  std::vector<float> values(192);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] =
        static_cast<float>(4 * i + static_cast<std::size_t>(index)) / 768.0F;
  }
  return Tensor::from<float>(values, {3, 8, 8});
}

/// Σ|x| after the published loop: 4 images, model x·t/(t+1).
double loop_sum(const ScheduleOptions& options) {
  const Schedule schedule(options);
  NoNoise noise;
  double sum = 0.0;
  for (int image = 0; image < 4; ++image) {
    const Tensor start = initial_state(schedule, ramp(image)).latents;
    const Tensor last = testing::run(schedule, {"ramp"}, start, noise).back();
    for (const float value : last.span<float>()) {
      sum += std::fabs(static_cast<double>(value));
    }
  }
  return sum;
}

ScheduleOptions published(Solver solver) {
  ScheduleOptions options;
  options.solver = solver;
  options.num_inference_steps = 10;
  return options;
}

TEST(DdimLoop, SumsToThePublishedValueForEpsilon) {
  EXPECT_NEAR(loop_sum(published(Solver::ddim)), 172.0067, 1e-3);
}

TEST(DdimLoop, SumsToThePublishedValueForVPrediction) {
  ScheduleOptions options = published(Solver::ddim);
  options.prediction_type = PredictionType::v_prediction;
  EXPECT_NEAR(loop_sum(options), 52.5302, 1e-3);
}

TEST(DdimLoop, SumsToThePublishedValuesForBothFinalAlphas) {
  ScheduleOptions options = published(Solver::ddim);
  options.beta_start = 0.01;
  EXPECT_NEAR(loop_sum(options), 149.8295, 1e-3);
  options.set_alpha_to_one = false;
  EXPECT_NEAR(loop_sum(options), 149.0784, 1e-3);
}

TEST(EulerLoop, SumsToThePublishedValue) {
  ScheduleOptions options = published(Solver::euler);
  options.num_train_timesteps = 1100;
  const Schedule schedule(options);
  NoNoise noise;
  double sum = 0.0;
  for (int image = 0; image < 4; ++image) {
    SolverState state = initial_state(schedule, ramp(image));
    for (int call = 0; call < schedule.num_model_calls(); ++call) {
      // The published loop steps from the scaled latents, too.
      state.latents = scale_model_input(schedule, call, state.latents);
      const Tensor output =
          testing::evaluate({"ramp"}, state.latents, schedule.timestep(call));
      state = step(schedule, call, call + 1, state, output, 0, noise);
    }
    for (const float value : state.latents.span<float>()) {
      sum += std::fabs(static_cast<double>(value));
    }
  }
  EXPECT_NEAR(sum, 10.0807, 1e-3);
}

TEST(DpmSolverLoop, AveragesToThePublishedValue) {
  ScheduleOptions options = published(Solver::dpmpp);
  options.lower_order_final = false;
  options.final_sigma_zero = false;
  EXPECT_NEAR(loop_sum(options) / 768.0, 0.3301, 1e-4);
}

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
  EXPECT_NEAR(
      step(schedule, 0, 1, state, half, 0, noise).latents.span<float>()[0],
      1.108403, 1e-5);
  EXPECT_NEAR(
      step(schedule, 49, 50, state, half, 0, noise).latents.span<float>()[0],
      0.995049, 1e-6);
}

}  // namespace
}  // namespace troupe::samplers

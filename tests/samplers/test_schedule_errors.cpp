#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "kernels/core/error.h"
#include "samplers/schedule.h"

namespace troupe::samplers {
namespace {

/// Expects invalid_argument that names the option.
void expect_refused(const ScheduleOptions& options, const std::string& name) {
  try {
    const Schedule schedule(options);
    FAIL() << "accepted; expected a complaint about " << name;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    EXPECT_NE(std::string(error.what()).find(name), std::string::npos)
        << error.what();
  }
}

ScheduleOptions defaults_of(Solver solver) {
  ScheduleOptions options;
  options.solver = solver;
  return options;
}

TEST(ScheduleErrors, RefuseStepCountsOutsideTheTrainingSteps) {
  ScheduleOptions options;
  for (const int steps : {0, -1, 1001}) {
    options.num_inference_steps = steps;
    expect_refused(options, "num_inference_steps");
  }
}

TEST(ScheduleErrors, NameTheFlagAndTheTrainingSteps) {
  ScheduleOptions options;
  options.num_inference_steps = 1001;
  try {
    const Schedule schedule(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "num_inference_steps: got 1001, expected 1 to 1000, because the "
              "model was trained with 1000 timesteps");
    EXPECT_EQ(error.hint(), "change --steps");
  }
}

TEST(ScheduleErrors, RefuseListsThatDoNotDescend) {
  ScheduleOptions options = defaults_of(Solver::euler);
  options.sigmas = {1.0, 2.0};
  expect_refused(options, "sigmas");
  options.sigmas = {2.0, 2.0};
  expect_refused(options, "sigmas");
  for (const std::vector<double>& zeros :
       {std::vector{0.0}, {0.0, 0.0}, {10.0, 5.0, 0.0, 0.0}}) {
    options.sigmas = zeros;
    expect_refused(options, "sigmas");
  }
  options.sigmas.clear();
  options.timesteps = {10.0, 20.0};
  expect_refused(options, "timesteps");
}

TEST(ScheduleErrors, RefuseNumbersThatAreNotFinite) {
  ScheduleOptions options = defaults_of(Solver::euler);
  options.sigmas = {std::numeric_limits<double>::quiet_NaN()};
  expect_refused(options, "sigmas");
  options = defaults_of(Solver::ddim);
  options.eta = std::numeric_limits<double>::quiet_NaN();
  expect_refused(options, "eta");
  options = defaults_of(Solver::ddim);
  options.beta_end = std::numeric_limits<double>::infinity();
  expect_refused(options, "beta_end");
}

TEST(ScheduleErrors, RefuseTimestepsOutsideTheTrainingSteps) {
  ScheduleOptions options = defaults_of(Solver::ddpm);
  options.timesteps = {1000.0, 10.0};
  expect_refused(options, "timesteps");
  options.timesteps = {10.5, 3.0};
  expect_refused(options, "timesteps");
  options = defaults_of(Solver::ddim);
  options.num_inference_steps = 1000;
  options.steps_offset = 1;
  expect_refused(options, "steps_offset");
}

TEST(ScheduleErrors, RefuseSigmasForIntegerSolvers) {
  ScheduleOptions options = defaults_of(Solver::ddim);
  options.sigmas = {3.0, 1.0};
  expect_refused(options, "sigmas");
}

TEST(ScheduleErrors, RefuseEpsilonWhereNoSignalIsLeft) {
  ScheduleOptions options = defaults_of(Solver::ddim);
  options.rescale_betas_zero_snr = true;
  options.timestep_spacing = TimestepSpacing::trailing;
  options.clip_sample = false;
  expect_refused(options, "prediction_type");
  // A quantile of infinities is none: NaN in diffusers.
  options.clip_sample = true;
  options.thresholding = true;
  expect_refused(options, "prediction_type");
  options.thresholding = false;
  ScheduleOptions plms = options;  // does not clip, whatever is said
  plms.solver = Solver::pndm;
  expect_refused(plms, "prediction_type");
  const Schedule clipped(options);
  EXPECT_TRUE(clipped.tells_sign_only(0));
  EXPECT_FALSE(clipped.tells_sign_only(1));
}

TEST(ScheduleErrors, RefuseWhatTheDiffusersClassRefuses) {
  ScheduleOptions options = defaults_of(Solver::dpmpp);
  options.algorithm = DpmAlgorithm::dpmsolver;
  expect_refused(options, "algorithm");
  options = defaults_of(Solver::flow_euler);
  options.use_dynamic_shifting = true;
  expect_refused(options, "mu");
  for (const Solver solver : {Solver::euler_ancestral, Solver::pndm}) {
    options = defaults_of(solver);
    options.prediction_type = PredictionType::sample;
    expect_refused(options, "prediction_type");
  }
  options = defaults_of(Solver::unipc);
  options.shift_terminal = 0.1;
  expect_refused(options, "shift_terminal");
  options = defaults_of(Solver::dpmpp);
  options.solver_type = "bh3";
  expect_refused(options, "solver_type");
  options = defaults_of(Solver::dpmpp);
  options.solver_order = 4;
  expect_refused(options, "solver_order");
}

TEST(ScheduleErrors, RefuseSpacingsThatRepeatANoiseLevel) {
  ScheduleOptions options = defaults_of(Solver::dpmpp);
  options.num_inference_steps = 1000;
  expect_refused(options, "num_inference_steps");
}

TEST(ScheduleErrors, RefuseCallsOutsideTheSchedule) {
  const Schedule schedule(defaults_of(Solver::ddim));
  EXPECT_THROW((void)schedule.timestep(50), Error);
  EXPECT_THROW((void)schedule.timestep(-1), Error);
  EXPECT_THROW((void)schedule.arrival(0), Error);
  EXPECT_NO_THROW((void)schedule.arrival(50));
}

// Every λ is clipped: nothing is left to space, whatever the spacing.
TEST(ScheduleErrors, SayThatNoTrainingStepIsLeft) {
  for (const TimestepSpacing spacing :
       {TimestepSpacing::leading, TimestepSpacing::linspace,
        TimestepSpacing::trailing}) {
    ScheduleOptions options;
    options.solver = Solver::dpmpp;
    options.num_inference_steps = 5;
    options.timestep_spacing = spacing;
    options.lambda_min_clipped = 100.0;
    try {
      const Schedule schedule(options);
      FAIL() << "not refused";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("no training step is left"),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace troupe::samplers

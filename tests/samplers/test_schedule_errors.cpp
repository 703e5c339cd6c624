#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
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

// diffusers#13243, #14213: such numbers became NaN in the latents.
TEST(ScheduleErrors, NameTheOptionBehindNumbersThatNoStepCanUse) {
  ScheduleOptions flow = defaults_of(Solver::flow_euler);
  flow.num_inference_steps = 1;
  flow.shift_terminal = 0.02;
  expect_refused(flow, "shift_terminal: no schedule");
  flow = defaults_of(Solver::flow_euler);
  flow.shift = 1e6;
  expect_refused(flow, "shift: no schedule");
  flow = defaults_of(Solver::unipc);
  flow.use_flow_sigmas = true;
  flow.prediction_type = PredictionType::flow_prediction;
  flow.flow_shift = 1e6;
  expect_refused(flow, "flow_shift: no schedule");
  for (const Solver solver : solver_table()) {
    if (solver->levels == Levels::flow) {
      continue;
    }
    for (const SigmaSpacing spacing :
         {SigmaSpacing::none, SigmaSpacing::karras, SigmaSpacing::exponential,
          SigmaSpacing::beta}) {
      ScheduleOptions options = defaults_of(solver);
      options.sigma_spacing = spacing;
      options.beta_start = 1e-12;
      options.beta_end = 1e-12;
      expect_refused(options, "beta_start");
      options.beta_start = 1.0;
      options.beta_end = 1.0;
      options.prediction_type = PredictionType::v_prediction;
      expect_refused(options, "beta_start");
      options = defaults_of(solver);
      options.sigma_spacing = spacing;
      options.trained_betas.assign(100, 0.0);
      expect_refused(options, "trained_betas");
    }
  }
}

TEST(ScheduleErrors, RefuseLevelsThatRise) {
  // The last training step of zero SNR has less noise than those before it.
  ScheduleOptions options = defaults_of(Solver::euler);
  options.rescale_betas_zero_snr = true;
  options.timesteps = {999, 998, 500};
  expect_refused(options, "rescale_betas_zero_snr, timesteps");
}

/// Values at the edges of what is allowed, and usual ones.
ScheduleOptions random_options(std::mt19937& rng) {
  const auto any = [&rng](auto... values) {
    const std::vector list{values...};
    return list[rng() % list.size()];
  };
  ScheduleOptions o =
      defaults_of(solver_table()[rng() % solver_table().size()]);
  o.num_train_timesteps = any(1, 2, 3, 10, 50, 100);
  o.num_inference_steps = std::min(any(1, 2, 5, 50), o.num_train_timesteps);
  o.beta_start = any(1e-4, 1e-4, 1e-12, 1e-8, 0.9, 1.0);
  o.beta_end = any(0.02, 0.02, 1e-12, 1e-8, 0.9, 1.0);
  o.beta_schedule = static_cast<BetaSchedule>(rng() % 5);
  o.rescale_betas_zero_snr = any(false, false, true);
  o.timestep_spacing = static_cast<TimestepSpacing>(rng() % 3);
  o.steps_offset = any(0, 0, 1);
  o.sigma_spacing = static_cast<SigmaSpacing>(rng() % 4);
  o.final_sigma_zero = any(true, false);
  o.set_alpha_to_one = any(true, false);
  o.shift = any(1.0, 1e-6, 3.0, 1e6);
  o.flow_shift = any(1.0, 1e-6, 3.0, 1e6);
  o.invert_sigmas = any(false, false, true);
  if (o.solver->has_key("use_flow_sigmas") && any(false, true)) {
    o.use_flow_sigmas = true;
    o.prediction_type = PredictionType::flow_prediction;
  }
  if (o.use_flow_sigmas || o.solver->levels == Levels::flow) {
    o.shift_terminal = any(0.0, 0.02, 0.999);
    o.use_dynamic_shifting = any(false, true);
    o.mu = any(-49.0, 0.5, 1.15, 49.0);
  } else if (any(false, true)) {
    o.prediction_type = PredictionType::v_prediction;
  }
  o.use_lu_lambdas = o.solver->has_key("use_lu_lambdas") && any(false, true);
  o.sigma_min = any(std::optional<double>(), std::optional(1e-12));
  o.sigma_max = any(std::optional<double>(), std::optional(1e12));
  return o;
}

// What is made is what another process accepts.
TEST(ScheduleErrors, RefuseRandomOptionsOrGiveAUsableTable) {
  std::mt19937 rng(11);
  int made = 0;
  int refused = 0;
  for (int round = 0; round < 2'000; ++round) {
    const ScheduleOptions options = random_options(rng);
    try {
      const Schedule schedule(options);
      ++made;
      ASSERT_NO_THROW((void)Schedule::from_table(schedule.table())) << round;
      for (const double sigma : schedule.sigmas()) {
        ASSERT_FALSE(std::isnan(sigma)) << round;
      }
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Errc::invalid_argument) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(made, 500);
  EXPECT_GT(refused, 500);
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

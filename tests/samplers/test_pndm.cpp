#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/error.h"
#include "samplers/noise_source.h"
#include "samplers/schedule.h"
#include "samplers/solver.h"
#include "tests/samplers/trajectory.h"

namespace troupe::samplers {
namespace {

/// As Stable Diffusion 1.5 ships it: PLMS.
ScheduleOptions stable_diffusion(int steps) {
  ScheduleOptions options;
  options.solver = Solver::pndm;
  options.num_inference_steps = steps;
  options.beta_schedule = BetaSchedule::scaled_linear;
  options.beta_start = 0.00085;
  options.beta_end = 0.012;
  options.steps_offset = 1;
  options.set_alpha_to_one = false;
  options.skip_prk_steps = true;
  return options;
}

/// The defaults of diffusers' class: Runge-Kutta steps first.
ScheduleOptions class_defaults(int steps) {
  ScheduleOptions options;
  options.solver = Solver::pndm;
  options.num_inference_steps = steps;
  options.set_alpha_to_one = false;
  return options;
}

Tensor scalar(double value) {
  return Tensor::from<float>(std::vector{static_cast<float>(value)}, {1, 1, 1});
}

double value_of(const Tensor& tensor) { return tensor.span<float>()[0]; }

/// Every point of a run with the model 0.1 x from x = 1, but the first.
std::vector<double> path_of(const ScheduleOptions& options) {
  PhiloxNoise noise(0);
  std::vector<double> path;
  for (const Tensor& point :
       testing::run(Schedule(options), {"linear", 0.1F}, scalar(1), noise)) {
    path.push_back(value_of(point));
  }
  path.erase(path.begin());
  return path;
}

void expect_close(std::span<const double> ours,
                  const std::vector<double>& theirs, double tolerance) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_NEAR(ours[i], theirs[i], tolerance * std::max(1.0, theirs[i])) << i;
  }
}

constexpr double kDigits = 1e-6;  // what diffusers' printed digits leave open

TEST(Pndm, CallsTheNetworkTwiceAtTheSecondTimestepOfPlms) {
  const Schedule schedule(stable_diffusion(10));
  expect_close(schedule.timesteps(),
               {901, 801, 801, 701, 601, 501, 401, 301, 201, 101, 1}, 0);
  EXPECT_EQ(schedule.num_steps(), 10);
  EXPECT_EQ(Schedule(stable_diffusion(2)).num_model_calls(), 3);
  EXPECT_EQ(Schedule(stable_diffusion(1)).num_model_calls(), 1);
  EXPECT_EQ(Schedule(stable_diffusion(1)).num_steps(), 1);
}

TEST(Pndm, BeginsWithThreeGroupsOfFourCalls) {
  ScheduleOptions options = class_defaults(10);
  options.steps_offset = 1;
  const Schedule schedule(options);
  // As in diffusers' own test.
  expect_close(schedule.timesteps(),
               {901, 851, 851, 801, 801, 751, 751, 701, 701, 651, 651, 601, 601,
                501, 401, 301, 201, 101, 1},
               0);
  EXPECT_EQ(schedule.num_steps(), 10);
}

// diffusers has no such schedules: three groups need four steps.
TEST(Pndm, BeginsWithFewerGroupsIfThereAreFewerSteps) {
  for (const auto& [steps, calls] :
       {std::pair{1, 1}, {2, 5}, {3, 9}, {4, 13}, {5, 14}}) {
    const Schedule schedule(class_defaults(steps));
    EXPECT_EQ(schedule.num_model_calls(), calls);
    EXPECT_EQ(schedule.num_steps(), steps);
    EXPECT_EQ(schedule.timesteps().back(), 0.0);
    for (const double value : path_of(class_defaults(steps))) {
      EXPECT_TRUE(std::isfinite(value));
    }
  }
}

TEST(Pndm, SpacesTimestepsAsDdim) {
  for (const TimestepSpacing spacing :
       {TimestepSpacing::leading, TimestepSpacing::trailing,
        TimestepSpacing::linspace}) {
    ScheduleOptions options = stable_diffusion(7);
    options.timestep_spacing = spacing;
    const Schedule plms(options);
    options.solver = Solver::ddim;
    const Schedule ddim(options);
    EXPECT_EQ(plms.timestep(0), ddim.timestep(0));
    EXPECT_EQ(plms.timestep(1), ddim.timestep(1));
    for (int call = 1; call < 7; ++call) {
      EXPECT_EQ(plms.timestep(call + 1), ddim.timestep(call));
      EXPECT_EQ(plms.arrival(call + 2).alpha, ddim.arrival(call + 1).alpha);
    }
  }
}

TEST(Pndm, FollowsTheGoldenTrajectoryOfPlms) {
  expect_close(path_of(stable_diffusion(10)),
               {1.553161, 1.535944, 2.207281, 2.97344, 3.781808, 4.565759,
                5.261969, 5.821223, 6.213117, 6.376531, 6.371559},
               kDigits);
  expect_close(path_of(stable_diffusion(2)), {1.747201, 1.688133, 1.686388},
               kDigits);
  const std::vector<double> fifty = path_of(stable_diffusion(50));
  EXPECT_EQ(fifty.size(), 51U);
  EXPECT_NEAR(fifty.back(), 9.511821, 1e-5);
}

TEST(Pndm, FollowsTheGoldenTrajectoryOfPlmsWithV) {
  ScheduleOptions options = stable_diffusion(10);
  options.prediction_type = PredictionType::v_prediction;
  expect_close(path_of(options),
               {.989916, .989953, .975583, .956783, .934058, .908413, .880969,
                .852423, .82178, .76382, .762897},
               kDigits);
}

TEST(Pndm, FollowsTheGoldenTrajectoryOfRungeKuttaSteps) {
  expect_close(
      path_of(class_defaults(10)),
      {1.500768, 1.472898, 2.161204, 2.155047, 3.085079, 3.040428, 4.254419,
       4.246505, 5.799851, 5.736376, 7.656457, 7.647769, 12.576266, 18.865803,
       25.783915, 32.055038, 36.192146, 37.02824, 37.02824},
      kDigits);
}

/// Steps with outputs that are a function of the timestep alone.
struct Driver {
  explicit Driver(const ScheduleOptions& options) : schedule(options) {}

  void step_to(int to) {
    const double output = model(schedule.timestep(at));
    state = step(ctx, schedule, at, to, state, scalar(output), 0, noise);
    at = to;
  }

  ExecContext ctx;
  Schedule schedule;
  std::function<double(double)> model = [](double t) { return t / 1000; };
  PhiloxNoise noise{0};
  SolverState state{.latents = scalar(1)};
  int at = 0;
};

// An explicit list may be uneven. The mean noise of a step is exact where the
// outputs are a polynomial of the timestep.
TEST(Pndm, UsesEarlierOutputsAtTheirTruePlaces) {
  for (int degree = 0; degree < 4; ++degree) {
    ScheduleOptions options = stable_diffusion(1);
    options.timesteps = {900, 800, 650, 300, 40};
    Driver driver(options);
    driver.model = [degree](double t) { return std::pow(t / 1000, degree); };
    for (const int to : {1, 2, 3, 4}) {
      driver.step_to(to);
    }
    const double before = value_of(driver.state.latents);
    EXPECT_EQ(driver.state.order, 3);
    driver.step_to(5);
    EXPECT_EQ(driver.state.order, 4);
    const NoiseLevel here = driver.schedule.level(4);
    const NoiseLevel there = driver.schedule.arrival(5);
    const double kept = there.alpha / here.alpha;
    const double mean =
        (std::pow(0.3, degree + 1) - std::pow(0.04, degree + 1)) /
        (0.26 * (degree + 1));
    EXPECT_NEAR(value_of(driver.state.latents),
                kept * before + (there.sigma - kept * here.sigma) * mean,
                1e-6 * before)
        << degree;
  }
}

TEST(PndmJumps, GiveTheBitsOfAScheduleWithoutThePointsLeftOut) {
  ScheduleOptions options = stable_diffusion(10);
  Driver jumping(options);
  options.timesteps = {901, 801, 601, 501, 101, 1};
  Driver walking(options);
  for (const auto& [far, near] :
       {std::pair{1, 1}, {2, 2}, {4, 3}, {5, 4}, {9, 5}, {10, 6}}) {
    jumping.step_to(far);
    walking.step_to(near);
    EXPECT_TRUE(bytes_equal(jumping.state.latents, walking.state.latents))
        << "at call " << far;
  }
}

TEST(PndmJumps, PastTheSecondTryAreDdimsStep) {
  const ScheduleOptions options = stable_diffusion(10);
  Driver pndm(options);
  ScheduleOptions other = options;
  other.solver = Solver::ddim;
  other.clip_sample = false;
  Driver ddim(other);
  pndm.step_to(4);
  ddim.step_to(3);
  EXPECT_NEAR(value_of(pndm.state.latents), value_of(ddim.state.latents), 1e-6);
  EXPECT_TRUE(pndm.state.anchor.empty());
}

TEST(PndmJumps, TakeARungeKuttaStepAsAWholeOrNotAtAll) {
  const auto refuses = [](const std::vector<int>& walk, int to) {
    Driver driver(class_defaults(10));
    for (const int call : walk) {
      driver.step_to(call);
    }
    try {
      driver.step_to(to);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::invalid_argument);
      return true;
    }
    return false;
  };
  EXPECT_TRUE(refuses({}, 2));
  EXPECT_TRUE(refuses({}, 5));
  EXPECT_TRUE(refuses({1}, 4));
  EXPECT_TRUE(refuses({1, 2}, 12));
  EXPECT_TRUE(refuses({1, 2, 3}, 6));
  EXPECT_FALSE(refuses({}, 8));
  EXPECT_FALSE(refuses({1, 2, 3, 4}, 12));
  EXPECT_FALSE(refuses({1, 2, 3}, 12));
  EXPECT_FALSE(refuses({1, 2, 3}, 19));
}

TEST(Pndm, RefusesALaterCallOfAStepWithoutItsFirst) {
  for (const ScheduleOptions& options :
       {stable_diffusion(10), class_defaults(10)}) {
    Driver driver(options);
    driver.at = 1;
    EXPECT_THROW(driver.step_to(2), Error);
  }
  Driver driver(class_defaults(10));
  driver.step_to(1);
  driver.at = 5;  // of another step
  EXPECT_THROW(driver.step_to(6), Error);
}

}  // namespace
}  // namespace troupe::samplers

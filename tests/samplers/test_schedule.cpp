#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "kernels/core/error.h"
#include "samplers/numeric.h"
#include "samplers/schedule.h"

namespace troupe::samplers {
namespace {

ScheduleOptions with(Solver solver, int steps) {
  ScheduleOptions options;
  options.solver = solver;
  options.num_inference_steps = steps;
  return options;
}

void expect_list(std::span<const double> ours,
                 const std::vector<double>& theirs, double tolerance) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_NEAR(ours[i], theirs[i], tolerance) << i;
  }
}

TEST(Schedule, HasDiffusersLinearAlphas) {
  const Schedule schedule(with(Solver::ddim, 50));
  EXPECT_EQ(schedule.timestep(0), 980.0);
  EXPECT_EQ(schedule.timestep(1), 960.0);
  EXPECT_EQ(schedule.timestep(49), 0.0);
  const auto acp = schedule.alphas_cumprod();
  EXPECT_FLOAT_EQ(acp[0], 0.9999F);
  EXPECT_NEAR(acp[500], 0.0777967, 1e-7);
  EXPECT_NEAR(acp[980], 5.90375e-5, 1e-10);
  EXPECT_NEAR(acp[999], 4.03583e-5, 1e-10);
  EXPECT_EQ(schedule.level(50).alpha, 1.0);
}

TEST(Schedule, HasStableDiffusionsScaledLinearAlphas) {
  ScheduleOptions options = with(Solver::ddim, 50);
  options.beta_schedule = BetaSchedule::scaled_linear;
  options.beta_start = 0.00085;
  options.beta_end = 0.012;
  options.steps_offset = 1;
  const Schedule schedule(options);
  EXPECT_EQ(schedule.timestep(0), 981.0);
  EXPECT_EQ(schedule.timestep(49), 1.0);
  const auto acp = schedule.alphas_cumprod();
  EXPECT_NEAR(acp[0], 0.99915, 1e-6);
  EXPECT_NEAR(acp[1], 0.998296, 1e-6);
  EXPECT_NEAR(acp[500], 0.276332, 1e-6);
  EXPECT_NEAR(acp[981], 0.00577550, 1e-8);
  EXPECT_NEAR(acp[999], 0.00466010, 1e-8);
}

TEST(Schedule, HasTheDpmSolverDefaults) {
  const Schedule schedule(with(Solver::dpmpp, 20));
  expect_list(schedule.timesteps(),
              {999, 949, 899, 849, 799, 749, 699, 649, 599, 549,
               500, 450, 400, 350, 300, 250, 200, 150, 100, 50},
              0.0);
  const auto sigmas = schedule.sigmas();
  const double head[] = {157.407257, 96.176086, 60.271412, 38.736404,
                         25.528482};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(sigmas[i], head[i], 1e-6 * head[i]) << i;
  }
  expect_list(sigmas.subspan(17), {0.521965, 0.34226, 0.17601, 0.0}, 1e-6);
}

TEST(Schedule, ShiftsTwiceLikeStableDiffusion3) {
  ScheduleOptions options = with(Solver::flow_euler, 28);
  options.shift = 3.0;
  const Schedule schedule(options);
  const auto timesteps = schedule.timesteps();
  expect_list(timesteps.first(5),
              {1000.0, 987.3806, 974.1077, 960.1293, 945.3875}, 1e-4);
  expect_list(timesteps.last(3), {199.827, 110.9057, 8.9286}, 1e-4);
  EXPECT_TRUE(schedule.alphas_cumprod().empty());
  // The class's sigma_min attribute, which the last level is shifted from.
  const double last = schedule.sigmas()[27];
  EXPECT_NEAR(last / (3.0 - 2.0 * last), 0.002994012, 1e-9);
}

TEST(Schedule, ShiftsByMuLikeFlux) {
  ScheduleOptions options = with(Solver::flow_euler, 28);
  options.use_dynamic_shifting = true;
  options.mu = 1.15;
  for (int i = 0; i < 28; ++i) {
    options.sigmas.push_back(1.0 - i * (1.0 - 1.0 / 28.0) / 27.0);
  }
  const Schedule schedule(options);
  const auto timesteps = schedule.timesteps();
  expect_list(timesteps.first(5),
              {1000.0, 988.4086, 976.2225, 963.3944, 949.8726}, 1e-4);
  expect_list(timesteps.last(3), {274.828, 195.4546, 104.7209}, 1e-4);
}

TEST(Schedule, LeavesEvenSigmasLikeFluxSchnell) {
  ScheduleOptions options = with(Solver::flow_euler, 4);
  options.sigmas = {1.0, 0.75, 0.5, 0.25};
  expect_list(Schedule(options).timesteps(), {1000, 750, 500, 250}, 0.0);
}

TEST(Schedule, TruncatesUniPcFlowTimesteps) {
  ScheduleOptions options = with(Solver::unipc, 10);
  options.use_flow_sigmas = true;
  options.flow_shift = 3.0;
  options.prediction_type = PredictionType::flow_prediction;
  const Schedule schedule(options);
  expect_list(schedule.timesteps(),
              {999, 964, 923, 875, 818, 750, 667, 563, 429, 251}, 0.0);
  expect_list(schedule.sigmas(),
              {.999999, .964324, .923166, .875156, .81843, .750375, .667222,
               .56332, .429795, .251872, 0.0},
              1e-6);
}

TEST(Schedule, AddsAMissingTrailingZeroToSigmas) {
  ScheduleOptions options = with(Solver::euler, 50);
  options.sigmas = {10.0, 3.0, 0.5};
  const Schedule without(options);
  options.sigmas.push_back(0.0);
  const Schedule with_zero(options);
  EXPECT_EQ(without.num_model_calls(), 3);
  expect_list(without.sigmas(), {10.0, 3.0, 0.5, 0.0}, 0.0);
  expect_list(with_zero.sigmas(), {10.0, 3.0, 0.5, 0.0}, 0.0);
}

TEST(Schedule, CountsTwoHeunCallsPerStepButOneForTheLast) {
  const Schedule schedule(with(Solver::heun, 5));
  EXPECT_EQ(schedule.num_model_calls(), 9);
  EXPECT_EQ(schedule.num_steps(), 5);
  EXPECT_EQ(schedule.timestep(1), schedule.timestep(2));
  EXPECT_EQ(schedule.sigmas()[9], 0.0);
}

/// Numbers of the whole run; only where it begins and ends differs.
TEST(Schedule, OfAPartHasTheNumbersOfTheWholeRun) {
  for (const Solver solver : solver_table()) {
    if (solver->levels == Levels::flow) {
      continue;
    }
    ScheduleOptions options = with(solver, 10);
    const Schedule whole(options);
    options.denoising_end = 0.6;  // timesteps of 400 and more
    const Schedule first(options);
    const auto calls = static_cast<std::size_t>(first.num_model_calls());
    EXPECT_GE(first.timestep(first.num_model_calls() - 1), 400.0);
    EXPECT_LT(whole.timestep(first.num_model_calls()), 400.0);
    EXPECT_EQ(first.calls_after(),
              whole.num_model_calls() - first.num_model_calls());
    EXPECT_EQ(first.level(first.num_model_calls()).sigma,
              whole.arrival(first.num_model_calls()).sigma);
    EXPECT_EQ(first.init_noise_sigma(), whole.init_noise_sigma());
    (void)Schedule::from_table(first.table());
    if (solver->extra_calls != nullptr) {
      continue;
    }
    options.denoising_end.reset();
    options.denoising_start = 0.6;
    const Schedule second(options);
    EXPECT_EQ(second.init_noise_sigma(), 1.0);
    std::vector<double> timesteps(first.timesteps().begin(),
                                  first.timesteps().end());
    // Heun: the step that was begun there begins again.
    timesteps.resize(calls - (solver->has_two_calls && calls % 2 == 1 ? 1 : 0));
    EXPECT_EQ(second.calls_before(), std::ssize(timesteps));
    timesteps.insert(timesteps.end(), second.timesteps().begin(),
                     second.timesteps().end());
    expect_list(whole.timesteps(), timesteps, 0.0);
    (void)Schedule::from_table(second.table());
  }
}

TEST(Schedule, OfAPartWithoutStepsIsRefused) {
  const auto refuses = [](Solver solver, std::optional<double> start,
                          std::optional<double> end) {
    ScheduleOptions options = with(solver, 10);
    options.denoising_start = start;
    options.denoising_end = end;
    EXPECT_THROW(Schedule{options}, Error);
  };
  refuses(Solver::ddim, {}, 0.01);
  refuses(Solver::ddim, 0.9999, {});
  refuses(Solver::ddim, 0.55, 0.56);
  refuses(Solver::ddim, 0.6, 0.6);
  refuses(Solver::ddim, -0.1, {});
  refuses(Solver::ddim, {}, 1.5);
  refuses(Solver::pndm, 0.5, {});
}

TEST(Schedule, ScalesInitialNoiseByTheLargestSigma) {
  const Schedule linspace(with(Solver::euler, 10));
  EXPECT_EQ(linspace.init_noise_sigma(), linspace.sigmas()[0]);
  ScheduleOptions options = with(Solver::euler, 10);
  options.timestep_spacing = TimestepSpacing::leading;
  const Schedule leading(options);
  EXPECT_FLOAT_EQ(static_cast<float>(leading.init_noise_sigma()),
                  static_cast<float>(std::hypot(1.0, leading.sigmas()[0])));
  EXPECT_EQ(Schedule(with(Solver::dpmpp, 10)).init_noise_sigma(), 1.0);
}

TEST(Schedule, EndsZeroTerminalSnrWithoutSignal) {
  ScheduleOptions options = with(Solver::ddim, 10);
  options.rescale_betas_zero_snr = true;
  options.prediction_type = PredictionType::v_prediction;
  options.timestep_spacing = TimestepSpacing::trailing;
  const Schedule schedule(options);
  EXPECT_EQ(schedule.timestep(0), 999.0);
  EXPECT_EQ(schedule.level(0).alpha, 0.0);
  EXPECT_EQ(schedule.level(0).sigma, 1.0);
}

// The values of diffusers 0.42.1.
TEST(Schedule, GivesRespacedLevelsTheTimestepsThatBelongToThem) {
  ScheduleOptions options = with(Solver::dpmpp, 6);
  options.use_lu_lambdas = true;
  options.rescale_betas_zero_snr = true;
  expect_list(Schedule(options).timesteps(), {999, 958, 771, 368, 36, 0}, 0.0);
  options.beta_schedule = BetaSchedule::scaled_linear;
  options.beta_start = 0.00085;
  options.beta_end = 0.012;
  expect_list(Schedule(options).timesteps(), {999, 993, 943, 656, 81, 0}, 0.0);
  options.beta_schedule = BetaSchedule::squaredcos_cap_v2;
  expect_list(Schedule(options).timesteps(), {999, 996, 966, 589, 51, 0}, 0.0);
  for (const Solver solver : {Solver::dpmpp, Solver::unipc}) {
    options = with(solver, 5);
    options.num_train_timesteps = 50;
    options.sigma_spacing = SigmaSpacing::exponential;
    expect_list(Schedule(options).timesteps(), {49, 17, 5, 1, 0}, 0.0);
    options.sigma_spacing = SigmaSpacing::beta;
    expect_list(Schedule(options).timesteps(), {49, 41, 26, 9, 0}, 0.0);
    options.num_train_timesteps = 100;
    expect_list(Schedule(options).timesteps(), {99, 87, 59, 22, 0}, 0.0);
    options.sigma_spacing = SigmaSpacing::exponential;
    expect_list(Schedule(options).timesteps(), {99, 36, 10, 2, 0}, 0.0);
    options.num_train_timesteps = 1000;
    options.rescale_betas_zero_snr = true;
    expect_list(Schedule(options).timesteps(), {999, 929, 600, 73, 0}, 0.0);
  }
  options = with(Solver::euler, 5);
  options.rescale_betas_zero_snr = true;
  options.sigma_spacing = SigmaSpacing::karras;
  expect_list(Schedule(options).timesteps(),
              {999, 980.8065, 893.2112, 512.9346, 0}, 1e-3);
}

// A level of the table is its own training step, however the logarithm rounds.
TEST(Schedule, BeginsRespacedStepsAtTheLastTrainingStep) {
  for (const Solver solver : {Solver::dpmpp, Solver::unipc}) {
    for (const SigmaSpacing spacing :
         {SigmaSpacing::karras, SigmaSpacing::exponential,
          SigmaSpacing::beta}) {
      for (int train = 20; train <= 1000; train += 49) {
        for (const bool zero_snr : {false, true}) {
          ScheduleOptions options = with(solver, 4);
          options.num_train_timesteps = train;
          options.sigma_spacing = spacing;
          options.rescale_betas_zero_snr = zero_snr;
          const Schedule schedule(options);
          EXPECT_EQ(schedule.timestep(0), train - 1) << zero_snr;
          EXPECT_EQ(schedule.timestep(3), 0) << train << " " << zero_snr;
        }
      }
    }
  }
}

TEST(ResidualScale, IsThePosteriorDeviationOfVpModels) {
  const Schedule schedule(with(Solver::ddim, 20));
  for (int point = 1; point < 20; ++point) {
    const double a = std::pow(schedule.level(point - 1).alpha, 2);
    const double b = std::pow(schedule.level(point).alpha, 2);
    EXPECT_NEAR(schedule.residual_scale(point),
                std::sqrt((1 - b) / (1 - a) * (1 - a / b)), 1e-12);
  }
  EXPECT_EQ(schedule.residual_scale(20), schedule.residual_scale(19));
}

TEST(ResidualScale, IsPositiveForEverySolver) {
  for (const Solver solver :
       {Solver::ddim, Solver::ddpm, Solver::dpmpp, Solver::euler,
        Solver::euler_ancestral, Solver::heun, Solver::flow_euler,
        Solver::unipc, Solver::pndm}) {
    for (const int steps : {1, 2, 7}) {
      const Schedule schedule(with(solver, steps));
      for (int call = 0; call <= schedule.num_model_calls(); ++call) {
        EXPECT_GT(schedule.residual_scale(call), 0.0);
      }
    }
  }
}

TEST(Rounding, GoesToEvenAtHalves) {
  EXPECT_EQ(round_half_even(0.5), 0.0);
  EXPECT_EQ(round_half_even(1.5), 2.0);
  EXPECT_EQ(round_half_even(2.5), 2.0);
  EXPECT_EQ(round_half_even(2.4999), 2.0);
  EXPECT_EQ(round_half_even(2.5001), 3.0);
}

TEST(BetaSigmas, HitTheKnownQuantiles) {
  // Beta(0.6, 0.6) is symmetric; its quartile from scipy 1.17.
  const std::vector<double> sigmas = beta_sigmas(1.0, 0.0, 5);
  EXPECT_NEAR(sigmas[0], 1.0, 1e-12);
  EXPECT_NEAR(sigmas[1], 1.0 - 0.17568037865269498, 1e-12);
  EXPECT_NEAR(sigmas[2], 0.5, 1e-12);
  EXPECT_NEAR(sigmas[3], 0.17568037865269498, 1e-12);
  EXPECT_NEAR(sigmas[4], 0.0, 1e-12);
}

}  // namespace
}  // namespace troupe::samplers

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/core/error.h"
#include "samplers/noise_source.h"
#include "samplers/schedule.h"
#include "samplers/solver.h"
#include "tests/samplers/trajectory.h"

namespace troupe::samplers {
namespace {

const Shape kShape{3, 4, 5};

Tensor unit(std::uint64_t seed) {
  PhiloxNoise noise(seed);
  Tensor out(kShape, DType::f32);
  noise.initial(0, out);
  return out;
}

ScheduleOptions of(Solver solver, int steps = 6) {
  ScheduleOptions options;
  options.solver = solver;
  options.num_inference_steps = steps;
  options.clip_sample = false;
  return options;
}

/// One configuration of every rule in the folder.
std::vector<ScheduleOptions> every_rule() {
  std::vector<ScheduleOptions> all;
  for (const Solver solver :
       {Solver::ddim, Solver::ddpm, Solver::euler, Solver::euler_ancestral,
        Solver::heun, Solver::flow_euler, Solver::pndm}) {
    all.push_back(of(solver));
  }
  all[0].eta = 0.5;
  ScheduleOptions flow = of(Solver::flow_euler);
  flow.stochastic_sampling = true;
  all.push_back(flow);
  for (const auto type :
       {PredictionType::epsilon, PredictionType::v_prediction}) {
    ScheduleOptions plms = of(Solver::pndm);
    plms.skip_prk_steps = true;
    plms.prediction_type = type;
    plms.timestep_spacing = TimestepSpacing::linspace;
    all.push_back(plms);
  }
  for (const DpmAlgorithm algorithm :
       {DpmAlgorithm::dpmsolver, DpmAlgorithm::dpmsolver_pp,
        DpmAlgorithm::sde_dpmsolver, DpmAlgorithm::sde_dpmsolver_pp}) {
    ScheduleOptions dpm = of(Solver::dpmpp);
    dpm.algorithm = algorithm;
    dpm.solver_order = algorithm == DpmAlgorithm::sde_dpmsolver ? 2 : 3;
    dpm.lower_order_final = false;
    dpm.final_sigma_zero = false;
    all.push_back(dpm);
  }
  for (const bool clean : {true, false}) {
    ScheduleOptions unipc = of(Solver::unipc);
    unipc.solver_order = 3;
    unipc.predict_x0 = clean;
    unipc.lower_order_final = false;
    all.push_back(unipc);
  }
  return all;
}

SolverState start(const Schedule& schedule, std::uint64_t seed) {
  ExecContext ctx;
  return initial_state(ctx, schedule, unit(seed));
}

SolverState advance(const Schedule& schedule, int from, int to,
                    const SolverState& state, NoiseSource& noise) {
  ExecContext ctx;
  const Tensor input = scale_model_input(ctx, schedule, from, state.latents);
  const Tensor output = testing::evaluate({}, input, schedule.timestep(from));
  return step(ctx, schedule, from, to, state, output, 4, noise);
}

class EveryRule : public ::testing::TestWithParam<ScheduleOptions> {};

TEST_P(EveryRule, GivesTheSameBitsForTheSameArguments) {
  const Schedule schedule(GetParam());
  PhiloxNoise noise(9);
  SolverState state = start(schedule, 1);
  for (int call = 0; call < schedule.num_model_calls(); ++call) {
    const Tensor before = state.latents.clone();
    const SolverState once = advance(schedule, call, call + 1, state, noise);
    const SolverState again = advance(schedule, call, call + 1, state, noise);
    EXPECT_TRUE(bytes_equal(once.latents, again.latents));
    EXPECT_TRUE(bytes_equal(state.latents, before));
    state = once;
  }
}

TEST_P(EveryRule, TakesReplacedLatentsWithTheHistoryOfAnotherGuess) {
  const Schedule schedule(GetParam());
  PhiloxNoise noise(9);
  SolverState state = start(schedule, 1);
  for (int call = 0; call < schedule.num_model_calls(); ++call) {
    SolverState replaced = state;
    replaced.latents = state.latents.clone();
    EXPECT_TRUE(
        bytes_equal(advance(schedule, call, call + 1, replaced, noise).latents,
                    advance(schedule, call, call + 1, state, noise).latents));
    state = advance(schedule, call, call + 1, state, noise);
  }
}

TEST_P(EveryRule, CarriesByTheDerivativeAtFixedOutput) {
  ScheduleOptions options = GetParam();
  options.disable_corrector = {0, 1, 2, 3, 4, 5};
  options.solver_order = 1;
  const Schedule schedule(options);
  PhiloxNoise noise(9);
  SolverState state = start(schedule, 1);
  ExecContext ctx;
  for (int call = 0; call < schedule.num_model_calls(); ++call) {
    const Tensor output =
        testing::evaluate({}, state.latents, schedule.timestep(call));
    SolverState moved = state;
    moved.latents = state.latents.clone();
    const double by = 0.25 * std::max(1.0, schedule.init_noise_sigma());
    for (float& value : moved.latents.span<float>()) {
      value += static_cast<float>(by);
    }
    const Tensor a =
        step(ctx, schedule, call, call + 1, state, output, 0, noise).latents;
    const Tensor b =
        step(ctx, schedule, call, call + 1, moved, output, 0, noise).latents;
    const double slope = (b.data<float>()[0] - a.data<float>()[0]) / by;
    EXPECT_NEAR(slope, carry_coefficient(schedule, call, call + 1),
                2e-4 * std::max(1.0, std::fabs(slope)))
        << "call " << call;
    state = advance(schedule, call, call + 1, state, noise);
  }
}

TEST_P(EveryRule, RefusesCallsAndShapesThatDoNotFit) {
  const Schedule schedule(GetParam());
  PhiloxNoise noise(9);
  const SolverState state = start(schedule, 1);
  const Tensor output = unit(2);
  const int end = schedule.num_model_calls();
  ExecContext ctx;
  EXPECT_THROW((void)step(ctx, schedule, 0, 0, state, output, 0, noise), Error);
  EXPECT_THROW((void)step(ctx, schedule, -1, 1, state, output, 0, noise),
               Error);
  EXPECT_THROW((void)step(ctx, schedule, 0, end + 1, state, output, 0, noise),
               Error);
  const Tensor wrong = Tensor::zeros({4, 4, 5}, DType::f32);
  EXPECT_THROW((void)step(ctx, schedule, 0, 1, state, wrong, 0, noise), Error);
}

INSTANTIATE_TEST_SUITE_P(Solvers, EveryRule, ::testing::ValuesIn(every_rule()));

TEST(DdimStep, IgnoresTheNoiseSeedAtEtaZero) {
  const Schedule schedule(of(Solver::ddim));
  PhiloxNoise one(1);
  PhiloxNoise two(2);
  EXPECT_TRUE(bytes_equal(testing::run(schedule, {}, unit(3), one).back(),
                          testing::run(schedule, {}, unit(3), two).back()));
}

TEST(DdimStep, FollowsTheNoiseSeedAboveEtaZero) {
  ScheduleOptions options = of(Solver::ddim);
  options.eta = 1.0;
  const Schedule schedule(options);
  PhiloxNoise one(1);
  PhiloxNoise two(2);
  EXPECT_FALSE(bytes_equal(testing::run(schedule, {}, unit(3), one).back(),
                           testing::run(schedule, {}, unit(3), two).back()));
}

TEST(Steps, DropALearnedVarianceThatTheyDoNotUse) {
  for (const Solver solver : {Solver::ddim, Solver::dpmpp, Solver::ddpm}) {
    const Schedule schedule(of(solver));
    PhiloxNoise noise(1);
    testing::ToyModel with_variance;
    with_variance.learned_variance = true;
    EXPECT_TRUE(bytes_equal(
        testing::run(schedule, {}, unit(3), noise).back(),
        testing::run(schedule, with_variance, unit(3), noise).back()));
  }
}

TEST(DdpmStep, RefusesALearnedVarianceThatIsMissing) {
  ScheduleOptions options = of(Solver::ddpm);
  options.variance_type = VarianceType::learned_range;
  const Schedule schedule(options);
  PhiloxNoise noise(1);
  EXPECT_THROW((void)testing::run(schedule, {}, unit(3), noise), Error);
}

/// A run that leaves points out must be the run over a schedule without them.
void expect_jumps_like_sublist(ScheduleOptions full_options) {
  full_options.lower_order_final = false;
  const Schedule full(full_options);
  const std::vector<int> visited = {0, 1, 4, 5, 9};
  ScheduleOptions sub_options = full_options;
  for (const int call : visited) {
    sub_options.timesteps.push_back(full.timestep(call));
  }
  const Schedule sub(sub_options);
  PhiloxNoise noise(1);
  SolverState jumping = start(full, 3);
  SolverState walking = start(sub, 3);
  for (std::size_t i = 0; i < visited.size(); ++i) {
    const int to =
        i + 1 < visited.size() ? visited[i + 1] : full.num_model_calls();
    jumping = advance(full, visited[i], to, jumping, noise);
    const int call = static_cast<int>(i);
    walking = advance(sub, call, call + 1, walking, noise);
    EXPECT_TRUE(bytes_equal(jumping.latents, walking.latents))
        << "after call " << visited[i];
  }
}

TEST(Jumps, GiveTheBitsOfAScheduleWithoutThePointsLeftOut) {
  expect_jumps_like_sublist(of(Solver::ddim, 10));
  expect_jumps_like_sublist(of(Solver::euler, 10));
  for (const int order : {1, 2, 3}) {
    ScheduleOptions dpm = of(Solver::dpmpp, 10);
    dpm.solver_order = order;
    expect_jumps_like_sublist(dpm);
    ScheduleOptions unipc = of(Solver::unipc, 10);
    unipc.solver_order = order;
    expect_jumps_like_sublist(unipc);
  }
}

TEST(Jumps, OfHeunTakeOneEulerStepFromAFirstStage) {
  const Schedule heun(of(Solver::heun, 6));
  const Schedule euler(of(Solver::euler, 6));
  PhiloxNoise noise(1);
  const Tensor first = start(heun, 3).latents;
  SolverState state;
  state.latents = first;
  const SolverState jumped = advance(heun, 0, 6, state, noise);
  const SolverState stepped = advance(euler, 0, 3, state, noise);
  for (std::int64_t i = 0; i < first.num_elements(); ++i) {
    EXPECT_NEAR(jumped.latents.data<float>()[i],
                stepped.latents.data<float>()[i], 2e-4);
  }
}

TEST(Extrapolate, IsTheDeterministicDdimStep) {
  const Schedule schedule(of(Solver::ddim));
  PhiloxNoise noise(1);
  SolverState state = start(schedule, 3);
  const Tensor output = unit(4);
  ExecContext ctx;
  for (const int to : {1, 3, 6}) {
    const Tensor guess =
        extrapolate(ctx, schedule, 0, to, state.latents, output);
    const Tensor stepped =
        step(ctx, schedule, 0, to, state, output, 0, noise).latents;
    for (std::int64_t i = 0; i < guess.num_elements(); ++i) {
      EXPECT_NEAR(guess.data<float>()[i], stepped.data<float>()[i], 5e-5);
    }
  }
}

TEST(Extrapolate, ClipsWhereTheSolverClips) {
  ScheduleOptions options = of(Solver::ddim);
  options.clip_sample = true;
  const Schedule schedule(options);
  PhiloxNoise noise(1);
  const SolverState state = start(schedule, 3);
  ExecContext ctx;
  const Tensor guess = extrapolate(ctx, schedule, 0, 3, state.latents, unit(4));
  const Tensor stepped =
      step(ctx, schedule, 0, 3, state, unit(4), 0, noise).latents;
  for (std::int64_t i = 0; i < guess.num_elements(); ++i) {
    EXPECT_NEAR(guess.data<float>()[i], stepped.data<float>()[i], 1e-6);
    EXPECT_LE(std::fabs(guess.data<float>()[i]), 8.0F);
  }
}

TEST(Denoised, RecoversTheCleanSampleOfAMixture) {
  for (const Solver solver : {Solver::ddim, Solver::euler, Solver::dpmpp}) {
    const Schedule schedule(of(solver));
    const Tensor clean = unit(5);
    const Tensor noise = unit(6);
    const NoiseLevel at = schedule.level(2);
    Tensor mixed(kShape, DType::f32);
    for (std::int64_t i = 0; i < mixed.num_elements(); ++i) {
      mixed.data<float>()[i] =
          static_cast<float>(at.alpha * clean.data<float>()[i] +
                             at.sigma * noise.data<float>()[i]);
    }
    ExecContext ctx;
    const Tensor found = denoised(ctx, schedule, 2, mixed, noise);
    for (std::int64_t i = 0; i < mixed.num_elements(); ++i) {
      EXPECT_NEAR(found.data<float>()[i], clean.data<float>()[i], 1e-4);
    }
  }
}

}  // namespace
}  // namespace troupe::samplers

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "config/scheduler_config.h"
#include "kernels/core/error.h"
#include "samplers/points.h"
#include "samplers/solver.h"
#include "samplers/step_arithmetic.h"

// A solver is one row: here is one more, and no other file knows it.

namespace troupe::samplers {
namespace {

/// Goes half of the way to the clean sample in every step, the whole way in the
/// last one.
SolverState step_halving(const StepInput& in) {
  const Tensor clean = clean_sample(in, Memory::scratch);
  const double kept = in.to == in.schedule.num_model_calls() ? 0.0 : 0.5;
  SolverState next;
  next.latents =
      weighted_sum(in.ctx, Memory::lasting,
                   {{kept, &in.state.latents}, {1.0 - kept, &clean}});
  return next;
}

double carry_halving(const Schedule& schedule, int from, int to) {
  const double kept = to == schedule.num_model_calls() ? 0.0 : 0.5;
  return kept + (1.0 - kept) * clean_slope(schedule, from);
}

constexpr std::string_view kShown[] = {"halving", "half"};
constexpr SolverSpelling kSpellings[] = {{"halving"},
                                         {.key = "halving3", .order = 3}};
constexpr SolverRow kHalving{.name = "halving",
                             .shown_names = kShown,
                             .spellings = kSpellings,
                             .keys = {kBetaKeys, "eta"},
                             .has_unit_signal = true,
                             .points = sigma_points,
                             .step = step_halving,
                             .carry = carry_halving};

std::vector<Solver> longer_table() {
  const SolverTable ours = solver_table();
  std::vector<Solver> table(ours.begin(), ours.end());
  table.emplace_back(kHalving);
  return table;
}

TEST(SolverTable, HasADifferentNameAndEveryFunctionInEachRow) {
  std::set<std::string_view> names;
  std::set<std::string_view> spellings;
  for (const Solver solver : longer_table()) {
    EXPECT_TRUE(names.insert(solver->name).second) << solver->name;
    EXPECT_FALSE(solver->shown_names.empty()) << solver->name;
    EXPECT_NE(solver->points, nullptr) << solver->name;
    EXPECT_NE(solver->step, nullptr) << solver->name;
    EXPECT_NE(solver->carry, nullptr) << solver->name;
    EXPECT_EQ(solver->flow_points != nullptr,
              solver->has_key("use_flow_sigmas"))
        << solver->name;
    for (const SolverSpelling& spelling : solver->spellings) {
      EXPECT_TRUE(spellings.insert(spelling.key).second) << spelling.key;
    }
  }
}

TEST(SolverTable, FindsAWholeWordAmongTheKeys) {
  EXPECT_TRUE(Solver::ddim->has_key("clip_sample"));
  EXPECT_TRUE(Solver::ddim->has_key("clip_sample_range"));
  EXPECT_TRUE(Solver::ddim->has_key("eta"));
  EXPECT_FALSE(Solver::ddim->has_key("clip"));
  EXPECT_FALSE(Solver::ddim->has_key("sample"));
  EXPECT_FALSE(Solver::heun->has_key("rescale_betas_zero_snr"));
}

TEST(SolverTable, TakesOneMoreSolverByItsRowAlone) {
  const std::vector<Solver> table = longer_table();
  const config::SolverChoice choice =
      config::parse_solver("Halving_3 Karras", table);
  EXPECT_EQ(choice.solver, Solver(kHalving));
  EXPECT_EQ(choice.order, 3);
  EXPECT_EQ(choice.sigma_spacing, SigmaSpacing::karras);
  EXPECT_EQ(config::solver_names(table).back(), "half");
  try {
    (void)config::parse_solver("halving");
    FAIL() << "the table without it knows it";
  } catch (const Error& error) {
    EXPECT_EQ(error.hint().find("halving"), std::string::npos) << error.hint();
  }
}

TEST(SolverTable, RunsOneMoreSolver) {
  ScheduleOptions options;
  options.solver = Solver(kHalving);
  options.num_inference_steps = 4;
  options.prediction_type = PredictionType::sample;
  const Schedule schedule(options);
  EXPECT_EQ(schedule.num_model_calls(), 4);
  EXPECT_FALSE(schedule.is_stochastic());
  EXPECT_GT(schedule.init_noise_sigma(), 1.0);

  ExecContext ctx;
  Tensor noise({1, 1, 2}, DType::f32);
  std::fill_n(noise.data<float>(), 2, 1.0F);
  // A network that always says that the clean sample is 3.
  Tensor clean({1, 1, 2}, DType::f32);
  std::fill_n(clean.data<float>(), 2, 3.0F);
  PhiloxNoise draws(0);
  SolverState state = initial_state(ctx, schedule, noise);
  float expected = static_cast<float>(schedule.init_noise_sigma());
  for (int call = 0; call < 4; ++call) {
    state = step(ctx, schedule, call, call + 1, state, clean, 0, draws);
    expected = call == 3 ? 3.0F : 0.5F * expected + 1.5F;
    EXPECT_FLOAT_EQ(state.latents.data<float>()[1], expected) << call;
  }
  EXPECT_EQ(carry_coefficient(schedule, 0, 1), 0.5);
  EXPECT_EQ(carry_coefficient(schedule, 3, 4), 0.0);
}

// A checkpoint's file, read for it: its keys, and no others.
TEST(SolverTable, ReadsTheKeysOfOneMoreSolver) {
  const config::SolverChoice halving =
      config::parse_solver("halving", longer_table());
  const ScheduleOptions options = config::parse_scheduler_config(
      R"({"_class_name": "DDIMScheduler", "beta_start": 0.25,
          "clip_sample": true, "clip_sample_range": 7})",
      "test", halving);
  EXPECT_EQ(options.solver, Solver(kHalving));
  EXPECT_EQ(options.beta_start, 0.25);
  EXPECT_EQ(options.clip_sample, false);
  EXPECT_EQ(options.clip_sample_range, 1.0);
}

}  // namespace
}  // namespace troupe::samplers

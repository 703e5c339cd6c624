// One code path for every timestep spacing and both ends of the noise schedule:
// the places where parallel and sequential samplers of other engines differ.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

/// Every solver over every spacing, with both terminal ᾱ (integer solvers) or
/// both last sigmas (multistep solvers).
std::vector<SolverCase> every_spacing(int num_steps) {
  std::vector<SolverCase> cases;
  const std::pair<const char*, TimestepSpacing> spacings[] = {
      {"leading", TimestepSpacing::leading},
      {"trailing", TimestepSpacing::trailing},
      {"linspace", TimestepSpacing::linspace}};
  for (const SolverCase& base : solver_cases(num_steps)) {
    const Solver solver = base.options.solver;
    const bool has_alpha = solver->has_key("set_alpha_to_one");
    const bool has_sigma = solver == Solver::dpmpp || solver == Solver::unipc;
    const bool listed = base.name == "ddim_trailing" ||
                        base.name == "ddim_linspace" ||
                        base.name == "ddim_alpha_not_one";
    const bool has_spacing =
        solver != Solver::flow_euler && !base.options.use_flow_sigmas &&
        base.options.sigmas.empty() && base.options.timesteps.empty();
    if (!has_spacing || listed) {
      continue;  // nothing to choose; the same case as another
    }
    for (const auto& [name, spacing] : spacings) {
      for (const bool ends_clean : {true, false}) {
        if (ends_clean ? predicts_noise(base.options)
                       : !has_alpha && !has_sigma) {
          continue;
        }
        SolverCase next = base;
        next.name += std::string("_") + name + (ends_clean ? "" : "_noisy_end");
        next.options.timestep_spacing = spacing;
        next.options.set_alpha_to_one = ends_clean;
        next.options.final_sigma_zero = ends_clean || !has_sigma;
        cases.push_back(std::move(next));
      }
    }
  }
  return cases;
}

class ExactOverSpacing : public ::testing::TestWithParam<SolverCase> {
 protected:
  ExactOverSpacing()
      : bench_(GetParam().options),
        sequential_(bench_.run({.kind = MethodKind::sequential}, 3).latents) {}
  void expect_sequential(const MethodOptions& options) {
    EXPECT_TRUE(bytes_equal(bench_.run(options, 3).latents, sequential_));
  }

  Bench bench_;
  Tensor sequential_;
};

TEST_P(ExactOverSpacing, PicardWithWindowOneEqualsSequential) {
  for (const double tolerance : {0.0, 0.1}) {
    for (const InitialGuess guess :
         {InitialGuess::last_point, InitialGuess::linear_x0}) {
      expect_sequential(picard(1, tolerance, guess));
    }
  }
}

TEST_P(ExactOverSpacing, PicardAtToleranceZeroEqualsSequential) {
  for (const Carry carry : {Carry::identity, Carry::coefficient}) {
    for (const int window : {2, 3, bench_.calls()}) {
      MethodOptions options = picard(window);
      options.carry = carry;
      expect_sequential(options);
    }
  }
}

TEST_P(ExactOverSpacing, PipelineCfgAndFreshStaleEqualSequential) {
  expect_sequential({.kind = MethodKind::pipeline, .num_segments = 3});
  expect_sequential({.kind = MethodKind::cfg});
  expect_sequential({.kind = MethodKind::stale, .num_segments = 3, .age = 0});
}

const auto name_of = [](const auto& param) { return param.param.name; };

// 7 does not divide the 1000 training steps, 8 does; with 7 the last trailing
// step ends at training step 0 instead of the terminal ᾱ.
INSTANTIATE_TEST_SUITE_P(SevenSteps, ExactOverSpacing,
                         ::testing::ValuesIn(every_spacing(7)), name_of);
INSTANTIATE_TEST_SUITE_P(EightSteps, ExactOverSpacing,
                         ::testing::ValuesIn(every_spacing(8)), name_of);

TEST(Spacing, AndTheScheduleEndChangeTheAnswer) {
  // Otherwise the cases above would all be one.
  std::vector<Tensor> results;
  for (const SolverCase& solver : every_spacing(8)) {
    if (solver.options.solver == Solver::ddim && solver.options.eta == 0 &&
        solver.options.clip_sample == false && !solver.options.thresholding &&
        solver.options.prediction_type.value_or(PredictionType::epsilon) ==
            PredictionType::epsilon) {
      Bench bench(solver.options);
      results.push_back(bench.run({}, 3).latents);
      for (std::size_t i = 0; i + 1 < results.size(); ++i) {
        EXPECT_FALSE(bytes_equal(results[i], results.back())) << solver.name;
      }
    }
  }
  EXPECT_EQ(results.size(), 6U);
}

}  // namespace
}  // namespace troupe::samplers::testing

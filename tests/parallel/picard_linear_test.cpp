// Chains that are linear in the latents, where the iteration's speed is known.

#include <gtest/gtest.h>

#include <algorithm>

#include "samplers/parallel/picard.h"
#include "tests/parallel/picard_rounds.h"
#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

/// A network whose output is a constant, so that a step is affine in the
/// latents with slope carry_coefficient.
struct ConstantOutput : ToyEvaluator {
  using ToyEvaluator::ToyEvaluator;
  void evaluate(ExecContext& ctx, std::span<EvaluateRow> rows) override {
    ToyEvaluator::evaluate(ctx, rows);
    for (EvaluateRow& row : rows) {
      for (float& value : row.output.span<float>()) {
        value = 0.125F;
      }
    }
  }
};

/// Relative distance of the furthest point from the sequential chain after the
/// first sweep over all points, and the rounds until `tolerance` is met.
struct Iteration {
  double error_after_one_sweep = 0;
  std::int64_t rounds = 0;
};

Iteration iterate(const ScheduleOptions& schedule, Carry carry,
                  double tolerance) {
  ConstantOutput network(Shape{1, 3, 5}, 3);
  Bench bench(schedule);
  const std::vector<Tensor> exact = exact_points(bench, network);
  MethodOptions options = picard(bench.calls(), tolerance);
  options.carry = carry;
  Iteration result;
  result.rounds = run_rounds(
      bench, network, options, bench.start(0),
      [&](int sweeps, const Task& sweep, SlotTable& slots) {
        for (std::size_t i = 0; sweeps == 1 && i < exact.size(); ++i) {
          const Tensor got =
              std::get<SolverState>(slots.get(sweep.outputs[i])).latents;
          const Tensor zero = Tensor::zeros(got.shape(), DType::f32);
          result.error_after_one_sweep =
              std::max(result.error_after_one_sweep,
                       rmse(got, exact[i]) / rmse(exact[i], zero));
        }
      });
  return result;
}

// Twenty steps of f32 leave less than 20 · 2⁻²³ ≈ 2.4e-6 of a chain whose
// values do not cancel.
constexpr double kRounding = 1e-5;

TEST(Picard, SolvesALinearChainInOneSweepWithTheStepsOwnCoefficient) {
  // One sweep that solves it, one that finds nothing left to change but f32's
  // rounding.
  const Iteration found = iterate(steps(20), Carry::coefficient, 3e-3);
  EXPECT_LT(found.error_after_one_sweep, kRounding);
  EXPECT_EQ(found.rounds, 2);
}

TEST(Picard, DoesNotSolveALinearChainInOneSweepWithTheIdentity) {
  // DDIM's slopes are not 1, so that each sweep leaves (slope − 1) of what it
  // should have carried.
  const Iteration found = iterate(steps(20), Carry::identity, 3e-3);
  EXPECT_GT(found.error_after_one_sweep, 0.05);
  EXPECT_GT(found.rounds, 2);
}

TEST(Picard, SolvesConstantDriftInOneSweepWithTheIdentity) {
  // Euler steps add a number that does not depend on the latents.
  for (const Solver solver : {Solver::euler, Solver::flow_euler}) {
    const Iteration found = iterate(steps(20, solver), Carry::identity, 3e-3);
    EXPECT_LT(found.error_after_one_sweep, kRounding);
    EXPECT_EQ(found.rounds, 2);
  }
}

}  // namespace
}  // namespace troupe::samplers::testing

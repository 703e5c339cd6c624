// Chains that are linear in the latents, where the iteration's speed is known.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "samplers/parallel/method.h"
#include "samplers/solver.h"
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
      [&](int round, const Task& sweep, SlotTable& slots) {
        if (round == 1) {
          const auto i = static_cast<std::size_t>(sweep.from);
          const Tensor got =
              std::get<SolverState>(slots.get(sweep.outputs[0])).latents;
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
  // The first sweep solves the chain; the second changes only f32's rounding.
  const Iteration found = iterate(steps(20), Carry::coefficient, 3e-3);
  EXPECT_LT(found.error_after_one_sweep, kRounding);
  EXPECT_EQ(found.rounds, 2);
}

TEST(Picard, DoesNotSolveALinearChainInOneSweepWithTheIdentity) {
  // DDIM's slopes are not 1, so a sweep misses the share (slope − 1) of the
  // true correction.
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

/// The noise that unit Gaussian data implies, ε(x) = σ·x: a DDIM step is then a
/// product with one number, α'α + σ'σ ≤ 1.
class UnitGaussian : public ToyEvaluator {
 public:
  explicit UnitGaussian(const Schedule& schedule)
      : ToyEvaluator(Shape{1, 3, 5}, 3), schedule_(schedule) {}
  void evaluate(ExecContext& /*ctx*/, std::span<EvaluateRow> rows) override {
    for (EvaluateRow& row : rows) {
      const auto& times = schedule_.timesteps();
      const auto at = std::find(times.begin(), times.end(), row.timestep);
      const auto sigma = static_cast<float>(
          schedule_.level(static_cast<int>(at - times.begin())).sigma);
      for (std::size_t i = 0; i < row.output.span<float>().size(); ++i) {
        row.output.span<float>()[i] = sigma * row.latents.span<float>()[i];
      }
    }
  }

 private:
  const Schedule& schedule_;
};

/// C of error ≤ C · tolerance. A point accepted with residual r was made from
/// an old left neighbour at most tolerance · scale away, so that it misses
/// Φ_j of the accepted one by |Φ_j − J| times that; the chain takes each miss
/// on by Φ of the steps after it.
double error_constant(const Schedule& schedule, Carry carry) {
  double constant = 0;
  for (int j = 0; j < schedule.num_model_calls(); ++j) {
    const NoiseLevel here = schedule.level(j);
    const double a = carry_coefficient(schedule, j, j + 1);
    const double b = schedule.arrival(j + 1).sigma - a * here.sigma;
    const double slope = a + b * here.sigma;
    const double missed =
        j == 0 ? 0
               : std::fabs(slope - (carry == Carry::identity ? 1.0 : a)) *
                     schedule.residual_scale(j);
    constant = std::fabs(slope) * constant + missed;
  }
  return constant;
}

TEST(Picard, StaysWithinTheErrorThatItsToleranceAllows) {
  for (const Carry carry : {Carry::identity, Carry::coefficient}) {
    for (const InitialGuess guess :
         {InitialGuess::last_point, InitialGuess::constant_x0}) {
      Bench bench(steps(40));
      UnitGaussian network(bench.schedule);
      const Tensor exact = exact_points(bench, network).back();
      const double constant = error_constant(bench.schedule, carry);
      double before = std::numeric_limits<double>::infinity();
      for (const double tolerance : {0.3, 0.1, 0.03, 0.01, 0.0}) {
        MethodOptions options = picard(8, tolerance, guess);
        options.carry = carry;
        TaskRunner runner(bench.schedule, network, bench.noise, options);
        const auto method = make_method(options, bench.schedule);
        const double error = rmse(
            run_local(*method, runner, bench.ctx, 0, bench.start(0)).latents,
            exact);
        EXPECT_LE(error, constant * tolerance + kRounding) << tolerance;
        EXPECT_EQ(error > 0, tolerance > 0) << tolerance;
        EXPECT_LE(error, before) << tolerance;
        before = error;
      }
      EXPECT_EQ(before, 0.0);
    }
  }
}

}  // namespace
}  // namespace troupe::samplers::testing

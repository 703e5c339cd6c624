// ParaTAA: Picard's rounds with a memory, against the iteration written out
// with plain loops.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "kernels/core/error.h"
#include "samplers/parallel/anderson.h"
#include "samplers/parallel/method.h"
#include "tests/parallel/run_local.h"
#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

using Vector = std::vector<double>;

double product(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

Vector difference(const Vector& a, const Vector& b) {
  Vector out = a;
  for (std::size_t i = 0; i < a.size(); ++i) {
    out[i] -= b[i];
  }
  return out;
}

/// A point's residuals in this round and in earlier rounds.
using Residuals = std::vector<Vector>;

double mean_square(const Vector& a) {
  return product(a, a) / static_cast<double>(a.size());
}

void add(AndersonSums& sums, const Residuals& residuals) {
  std::vector<MeanSquares> squares;
  for (std::size_t k = 0; k < residuals.size(); ++k) {
    squares.push_back({mean_square(residuals[k])});
    for (std::size_t older = k + 1; older < residuals.size(); ++older) {
      squares.back().push_back(
          mean_square(difference(residuals[k], residuals[older])));
    }
  }
  std::vector<Iterate> older;
  for (std::size_t k = 1; k < residuals.size(); ++k) {
    older.push_back({.squares = squares[k]});
  }
  sums.add(squares.front(), older);
}

Residuals drawn_residuals(std::mt19937_64& random, std::size_t rounds) {
  std::normal_distribution<double> normal;
  Residuals residuals(rounds, Vector(7));
  for (Vector& one : residuals) {
    std::ranges::generate(one, [&] { return normal(random); });
  }
  return residuals;
}

TEST(AndersonSums, GiveTheWeightsOfTheLeastSquares) {
  std::mt19937_64 random(4);
  for (std::size_t older = 1; older <= kMostCoefficients; ++older) {
    const std::vector<Residuals> points = {drawn_residuals(random, older + 1),
                                           drawn_residuals(random, older + 1)};
    AndersonSums sums(older);
    double diagonal = 0;
    for (const Residuals& point : points) {
      add(sums, point);
      for (std::size_t a = 1; a <= older; ++a) {
        diagonal += mean_square(difference(point[a], point[0])) /
                    static_cast<double>(older);
      }
    }
    const Coefficients weights = sums.weights();
    ASSERT_EQ(weights.size(), older);
    // Half the gradient of what they minimise: zero.
    for (std::size_t a = 1; a <= older; ++a) {
      double gradient = 1e-3 * diagonal * weights[a - 1];
      for (const Residuals& point : points) {
        Vector mixed = point[0];
        for (std::size_t b = 1; b <= older; ++b) {
          for (std::size_t i = 0; i < mixed.size(); ++i) {
            mixed[i] += weights[b - 1] * (point[b][i] - point[0][i]);
          }
        }
        gradient += product(mixed, difference(point[a], point[0])) / 7;
      }
      EXPECT_NEAR(gradient, 0, 1e-4);  // weights are rounded
    }
  }
}

TEST(AndersonSums, HaveNoWeightsWhereAllResidualsAreTheSame) {
  for (const double value : {0.0, 0.3}) {
    AndersonSums sums(2);
    add(sums, Residuals(3, Vector(7, value)));
    EXPECT_TRUE(sums.weights().empty());
  }
}

TEST(AndersonSums, AreFiniteWhereTwoResidualsAreTheSame) {
  std::mt19937_64 random(5);
  Residuals residuals = drawn_residuals(random, 3);
  residuals[2] = residuals[1];
  AndersonSums sums(2);
  add(sums, residuals);
  ASSERT_EQ(sums.weights().size(), 2U);
  for (const double weight : sums.weights()) {
    EXPECT_LT(std::fabs(weight), 10);
  }
}

MethodOptions taa(int window, int memory, double tolerance = 0) {
  return {.kind = MethodKind::taa,
          .window_size = window,
          .tolerance = tolerance,
          .memory = memory};
}

Vector values(const Tensor& tensor) {
  return {tensor.span<float>().begin(), tensor.span<float>().end()};
}

/// ParaTAA with DDIM, carry 1, copies of the last point as guesses and two
/// iterates: latents in double, one round after the other.
class PlainTaa {
 public:
  PlainTaa(Bench& bench, const MethodOptions& options)
      : bench_(bench), options_(options) {}

  /// Rounds.
  int run() {
    const int calls = bench_.calls();
    points_.assign(static_cast<std::size_t>(calls) + 1,
                   values(bench_.start(0).latents));
    int begin = 0;
    int rounds = 0;
    std::map<int, Vector> swept_before;
    std::map<int, Vector> residual_before;
    while (begin < calls) {
      ++rounds;
      const int end = std::min(begin + options_.window_size, calls);
      std::map<int, Vector> swept{{begin, at(begin)}};
      std::map<int, Vector> residual;
      int next = end;
      for (int call = begin; call < end; ++call) {
        Vector point = stepped(call);
        for (std::size_t i = 0; i < point.size(); ++i) {
          point[i] += swept[call][i] - at(call)[i];
        }
        residual[call + 1] = difference(point, at(call + 1));
        swept[call + 1] = point;
        const double change = std::sqrt(mean_square(residual[call + 1]));
        if (next == end && call + 1 < end &&
            change >
                options_.tolerance * bench_.schedule.residual_scale(call + 1)) {
          next = call + 1;
        }
      }
      double above = 0;
      double below = 0;
      for (int point = begin + 1; point <= end; ++point) {
        Vector mixed = swept[point];
        if (residual_before.contains(point)) {
          const Vector move =
              difference(residual_before[point], residual[point]);
          above -= product(residual[point], move);
          below += product(move, move);
          const double weight = above / (below * (1 + 1e-3));
          for (std::size_t i = 0; i < mixed.size() && point > next; ++i) {
            mixed[i] += weight * (swept_before[point][i] - swept[point][i]);
          }
        }
        at(point) = mixed;
      }
      for (int point = end + 1; point <= calls; ++point) {
        at(point) = swept[end];
      }
      std::erase_if(residual,
                    [&](const auto& one) { return one.first <= next; });
      swept_before = swept;
      residual_before = residual;
      begin = next;
    }
    return rounds;
  }
  [[nodiscard]] const Vector& result() const { return points_.back(); }

 private:
  Vector& at(int point) { return points_[static_cast<std::size_t>(point)]; }

  Vector stepped(int call) {
    SolverState state;
    state.latents = Tensor(bench_.evaluator.latent_shape(), DType::f32);
    std::ranges::transform(at(call), state.latents.span<float>().begin(),
                           [](double x) { return static_cast<float>(x); });
    std::vector<EvaluateRow> rows(1);
    rows[0].timestep = bench_.schedule.timestep(call);
    rows[0].latents = state.latents;
    rows[0].output = Tensor(state.latents.shape(), DType::f32);
    bench_.evaluator.evaluate(bench_.ctx, rows);
    return values(step(bench_.ctx, bench_.schedule, call, call + 1, state,
                       rows[0].output, 0, bench_.noise)
                      .latents);
  }

  Bench& bench_;
  MethodOptions options_;
  std::vector<Vector> points_;
};

TEST(Taa, IsTheIterationOfThePaper) {
  for (const int window : {4, 9, 30}) {
    Bench bench(steps(30));
    const MethodOptions options = taa(window, 2, 0.02);
    const auto method = make_method(options, bench.schedule);
    const Vector result = values(bench.run(*method, options).latents);
    PlainTaa plain(bench, options);
    EXPECT_EQ(method->progress().rounds, plain.run()) << window;
    // The plain loop rounds less.
    const double size = std::sqrt(mean_square(plain.result()));
    EXPECT_LT(std::sqrt(mean_square(difference(result, plain.result()))),
              1e-5 * size)
        << window;
    // With other rounds there would be another result.
    const Vector picard_result =
        values(bench.run(picard(window, 0.02)).latents);
    EXPECT_GT(std::sqrt(mean_square(difference(result, picard_result))),
              1e-4 * size)
        << window;
  }
}

TEST(Taa, WithAMemoryOfOneIsPicard) {
  for (const SolverCase& solver : solver_cases(12)) {
    for (const double tolerance : {0.0, 0.05}) {
      Bench bench(solver.options);
      const MethodOptions plain = picard(5, tolerance);
      const MethodOptions options = taa(5, 1, tolerance);
      const auto one = make_method(options, bench.schedule);
      const auto other = make_method(plain, bench.schedule);
      EXPECT_TRUE(bytes_equal(bench.run(*one, options).latents,
                              bench.run(*other, plain).latents))
          << solver.name;
      EXPECT_EQ(one->progress().nfe, other->progress().nfe);
      EXPECT_EQ(one->progress().rounds, other->progress().rounds);
    }
  }
}

TEST(Taa, TakesFewerRoundsThanPicard) {
  std::int64_t plain_rounds = 0;
  std::int64_t rounds = 0;
  double error = 0;
  for (std::uint64_t sample = 0; sample < 6; ++sample) {
    Bench bench(steps(50));
    const Tensor exact = bench.run({}, sample).latents;
    const auto plain = make_method(picard(50, 0.01), bench.schedule);
    (void)bench.run(*plain, picard(50, 0.01), sample);
    plain_rounds += plain->progress().rounds;
    const MethodOptions options = taa(50, 2, 0.01);
    const auto method = make_method(options, bench.schedule);
    error += rmse(bench.run(*method, options, sample).latents, exact);
    rounds += method->progress().rounds;
  }
  EXPECT_LT(rounds, plain_rounds);
  EXPECT_LT(error / 6, 0.02);
}

TEST(Taa, RefusesMemoriesThatItCannotMix) {
  const Schedule schedule(steps(9));
  for (const int memory : {0, -1, 6}) {
    try {
      (void)make_method(taa(4, memory), schedule);
      FAIL() << memory;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::invalid_argument);
      EXPECT_EQ(error.place(), "memory");
    }
  }
}

/// The last point that has an older iterate in the second round.
constexpr int kChanged = 6;

/// Plays scalars instead of arithmetic.
class TaaScript {
 public:
  /// residual: of the point kChanged in the second round.
  explicit TaaScript(double residual)
      : residual_(residual),
        method_(make_method(taa(6, 3), Schedule(steps(12)))) {}

  /// Everything that is handed out before the third round's sweeps.
  void run() {
    for (int round = 0; round < 2; ++round) {
      const std::vector<Task> tasks = method_->ready(1000);
      for (const Task& task : tasks) {
        note(task);
      }
      for (const Task& task : tasks) {
        method_->apply({task.id, task.version, scalars(task, round)});
      }
    }
    for (const Task& task : method_->ready(1000)) {
      note(task);
    }
  }

  std::vector<Task> mixes;
  std::set<Slot> mixed;  ///< made by mixes
  std::vector<Task> evaluations;

 private:
  void note(const Task& task) {
    if (task.op == Op::mix) {
      mixes.push_back(task);
      mixed.insert(task.outputs.at(0));
    } else if (task.op == Op::evaluate) {
      evaluations.push_back(task);
    }
  }
  std::vector<double> scalars(const Task& task, int round) const {
    if (task.op == Op::sweep) {
      return {round == 1 && task.to == kChanged ? residual_
                                                : 1.0 / (1 + task.to + round),
              0.0};
    }
    return std::vector<double>(num_scalars(task), 0.5);
  }

  double residual_;
  std::unique_ptr<Method> method_;
};

TEST(Taa, MixesOfPointsUpstreamAlone) {
  TaaScript one(0.25);
  TaaScript other(0.75);
  one.run();
  other.run();
  ASSERT_EQ(one.mixes.size(), other.mixes.size());
  std::vector<int> weighted;
  for (std::size_t i = 0; i < one.mixes.size(); ++i) {
    const Task& mix = one.mixes[i];
    EXPECT_EQ(mix.inputs.size(), 1 + mix.coefficients.size());
    weighted.push_back(mix.to);
    EXPECT_EQ(std::ranges::equal(mix.coefficients, other.mixes[i].coefficients),
              mix.to != kChanged);
  }
  EXPECT_EQ(weighted, (std::vector<int>{3, 4, 5, 6}));
}

TEST(Taa, LeavesTheFirstPointOfEveryRoundAsTheSweepMadeIt) {
  TaaScript script(0.25);
  script.run();
  std::vector<int> evaluated;
  std::vector<int> mixed;
  for (const Task& task : script.evaluations) {
    evaluated.push_back(task.from);
    if (script.mixed.contains(task.inputs.at(0))) {
      mixed.push_back(task.from);
    }
  }
  // Windows of six from 0, 1 and 2 on; what waits for no mix comes first.
  EXPECT_EQ(evaluated, (std::vector<int>{0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6, 2,
                                         7, 3, 4, 5, 6}));
  EXPECT_EQ(mixed, (std::vector<int>{3, 4, 5, 6}));
}

}  // namespace
}  // namespace troupe::samplers::testing

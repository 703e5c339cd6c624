// Speculative sampling: the distribution of the sequential sampler, whatever
// the window.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/core/error.h"
#include "samplers/parallel/sweep.h"
#include "tests/parallel/run_local.h"
#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

MethodOptions speculative(int window) {
  return {.kind = MethodKind::speculative, .window_size = window};
}

ScheduleOptions noisy_steps(int count, Solver solver = Solver::ddim) {
  ScheduleOptions options = steps(count, solver);
  options.eta = solver == Solver::ddim ? 1.0 : 0.0;
  return options;
}

/// The noise of a clean Gaussian mixture of equal variances, exactly.
class MixtureNetwork final : public ToyEvaluator {
 public:
  using Centre = std::vector<double>;

  MixtureNetwork(const Schedule& schedule, std::vector<Centre> centres,
                 std::vector<double> weights, double deviation)
      : ToyEvaluator(
            Shape{1, 1, static_cast<std::int64_t>(centres.front().size())}),
        schedule_(schedule),
        centres_(std::move(centres)),
        weights_(std::move(weights)),
        variance_(deviation * deviation) {}

  void evaluate(ExecContext& /*ctx*/, std::span<EvaluateRow> rows) override {
    for (EvaluateRow& row : rows) {
      const auto timesteps = schedule_.timesteps();
      const auto call = std::ranges::find(timesteps, row.timestep);
      const NoiseLevel at =
          schedule_.level(static_cast<int>(call - timesteps.begin()));
      predict(at, row.latents.span<float>(), row.output.span<float>());
    }
  }

 private:
  void predict(const NoiseLevel& at, std::span<const float> x,
               std::span<float> noise) const {
    const double variance =
        at.alpha * at.alpha * variance_ + at.sigma * at.sigma;
    std::vector<double> shares;
    for (std::size_t k = 0; k < centres_.size(); ++k) {
      double squares = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        squares += std::pow(x[i] - at.alpha * centres_[k][i], 2);
      }
      shares.push_back(std::log(weights_[k]) - squares / (2 * variance));
    }
    const double largest = *std::ranges::max_element(shares);
    double sum = 0;
    for (double& share : shares) {
      share = std::exp(share - largest);
      sum += share;
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      double clean = 0;
      for (std::size_t k = 0; k < centres_.size(); ++k) {
        const double centre = centres_[k][i];
        clean += shares[k] / sum *
                 (centre +
                  at.alpha * variance_ / variance * (x[i] - at.alpha * centre));
      }
      noise[i] = static_cast<float>((x[i] - at.alpha * clean) / at.sigma);
    }
  }

  const Schedule& schedule_;
  std::vector<Centre> centres_;
  std::vector<double> weights_;
  double variance_;
};

/// Decides about drafts as it is told to.
class DecidedNoise final : public NoiseSource {
 public:
  DecidedNoise(NoiseSource& inner, double uniform)
      : inner_(inner), uniform_(uniform) {}
  void initial(std::uint64_t sample_index, Tensor& out) override {
    inner_.initial(sample_index, out);
  }
  void step(std::uint64_t sample_index, int call, Tensor& out) override {
    inner_.step(sample_index, call, out);
  }
  double uniform(std::uint64_t /*sample*/, int /*call*/) override {
    return uniform_;
  }

 private:
  NoiseSource& inner_;
  double uniform_;
};

constexpr double kAcceptsAll = 1e-300;
constexpr double kAcceptsFew = 1 - 1e-12;

/// Ends of runs.
struct Ends {
  std::vector<std::vector<double>> samples;
  double mean_rounds = 0;
};

Ends ends(const Schedule& schedule, Evaluator& network, NoiseSource& noise,
          const MethodOptions& options, std::uint64_t first,
          std::uint64_t count) {
  TaskRunner runner(schedule, network, noise, options);
  ExecContext ctx;
  Ends all;
  for (std::uint64_t i = first; i < first + count; ++i) {
    Tensor unit(network.latent_shape(), DType::f32);
    noise.initial(i, unit);
    const auto method = make_method(options, schedule);
    const Tensor end =
        run_local(*method, runner, ctx, i, initial_state(ctx, schedule, unit))
            .latents;
    all.samples.emplace_back(end.span<float>().begin(),
                             end.span<float>().end());
    all.mean_rounds += static_cast<double>(method->progress().rounds) /
                       static_cast<double>(count);
  }
  return all;
}

/// The largest distance between the distributions of two sets' projections.
double kolmogorov_distance(const Ends& a, const Ends& b,
                           const std::vector<double>& direction) {
  const auto projected = [&](const Ends& ends) {
    std::vector<double> values;
    for (const auto& sample : ends.samples) {
      values.push_back(0);
      for (std::size_t i = 0; i < sample.size(); ++i) {
        values.back() += direction[i] * sample[i];
      }
    }
    std::ranges::sort(values);
    return values;
  };
  const std::vector<double> x = projected(a);
  const std::vector<double> y = projected(b);
  double largest = 0;
  for (std::size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    const double at = std::min(x[i], y[j]);
    i = static_cast<std::size_t>(std::ranges::upper_bound(x, at) - x.begin());
    j = static_cast<std::size_t>(std::ranges::upper_bound(y, at) - y.begin());
    largest = std::max(
        largest,
        std::fabs(static_cast<double>(i) / static_cast<double>(x.size()) -
                  static_cast<double>(j) / static_cast<double>(y.size())));
  }
  return largest;
}

constexpr std::uint64_t kSamples = 4000;
/// Two sets of one distribution are further apart with a probability of 1e-9
/// (Smirnov: 2 exp(−n d²)).
const double kFurthest = std::sqrt(std::log(2e9) / kSamples);

struct MixtureCase {
  std::vector<MixtureNetwork::Centre> centres;
  std::vector<std::vector<double>> directions;
};

const std::vector<MixtureCase> kMixtures = {
    {{{-1.5}, {1.0}, {2.5}}, {{1.0}}},
    {{{-1.5, 0.5}, {1.0, 2.0}, {2.0, -1.5}}, {{1, 0}, {0, 1}, {1, -1}}}};

TEST(Speculative, HasTheDistributionOfTheSequentialSampler) {
  for (const Solver solver : {Solver::ddim, Solver::ddpm}) {
    const Schedule schedule(noisy_steps(12, solver));
    PhiloxNoise noise(3);
    for (const MixtureCase& mixture : kMixtures) {
      MixtureNetwork network(schedule, mixture.centres, {0.3, 0.5, 0.2}, 0.3);
      const Ends plain = ends(schedule, network, noise, {}, 0, kSamples);
      const Ends drafted =
          ends(schedule, network, noise, speculative(4), kSamples, kSamples);
      for (const auto& direction : mixture.directions) {
        EXPECT_LT(kolmogorov_distance(plain, drafted, direction), kFurthest);
      }
      // Something was accepted, and something was not.
      EXPECT_LT(drafted.mean_rounds, 0.8 * schedule.num_model_calls());
      EXPECT_GT(drafted.mean_rounds, 5);
    }
  }
}

TEST(Speculative, WouldHaveAnotherDistributionIfEveryDraftWereAccepted) {
  const Schedule schedule(noisy_steps(12));
  PhiloxNoise inner(3);
  for (const double uniform : {kAcceptsAll, kAcceptsFew}) {
    DecidedNoise noise(inner, uniform);
    MixtureNetwork network(schedule, kMixtures[0].centres, {0.3, 0.5, 0.2},
                           0.3);
    const Ends plain = ends(schedule, network, inner, {}, 0, kSamples);
    const Ends drafted =
        ends(schedule, network, noise, speculative(4), kSamples, kSamples);
    EXPECT_GT(kolmogorov_distance(plain, drafted, {1.0}), kFurthest) << uniform;
  }
}

TEST(Speculative, AcceptsEveryDraftThatIsTheStep) {
  // The clean sample is known: no step learns more of it.
  const Schedule schedule(noisy_steps(25));
  PhiloxNoise noise(3);
  MixtureNetwork network(schedule, {{0.7, -0.4}}, {1.0}, 0.0);
  for (const int window : {2, 4, 24}) {
    const Ends drafted =
        ends(schedule, network, noise, speculative(window), 0, 20);
    EXPECT_NEAR(drafted.mean_rounds, 1 + std::ceil(24.0 / window), 1e-9);
    for (const auto& sample : drafted.samples) {
      EXPECT_NEAR(sample[0], 0.7, 1e-5);
    }
  }
}

TEST(Speculative, WithAWindowOfOneIsSequential) {
  int carried = 0;
  for (const SolverCase& solver : solver_cases(9)) {
    Bench bench(solver.options);
    if (can_carry(speculative(1), bench.schedule)) {
      const auto method = make_method(speculative(1), bench.schedule);
      EXPECT_TRUE(bytes_equal(bench.run(*method, speculative(1), 5).latents,
                              bench.run({}, 5).latents))
          << solver.name;
      EXPECT_EQ(method->progress().nfe, bench.calls());
      EXPECT_EQ(method->progress().rounds, bench.calls());
      ++carried;
    }
  }
  EXPECT_GE(carried, 5);
}

TEST(Speculative, TakesEverySamplerThatDrawsNoiseOfAKnownDeviation) {
  for (const SolverCase& solver : solver_cases(9)) {
    const Schedule schedule(solver.options);
    EXPECT_EQ(can_carry(speculative(4), schedule),
              schedule.is_stochastic() && !learns_variance(solver.options))
        << solver.name;
  }
}

TEST(StepDeviation, IsWhatAStepScalesItsNoiseWith) {
  int noisy = 0;
  for (const SolverCase& solver : solver_cases(9)) {
    if (learns_variance(solver.options)) {
      continue;
    }
    Bench bench(solver.options);
    const Tensor zeros =
        Tensor::zeros(bench.evaluator.latent_shape(), DType::f32);
    for (int call = 0; call < bench.calls(); ++call) {
      const double deviation = step_deviation(bench.schedule, call, call + 1);
      EXPECT_EQ(deviation > 0 && bench.schedule.draws_noise(call),
                deviation > 0);
      if (!bench.schedule.draws_noise(call)) {
        EXPECT_EQ(deviation, 0.0);
        continue;
      }
      // Of zeros every other term is zero.
      SolverState state;
      state.latents = zeros;
      const Tensor next = step(bench.ctx, bench.schedule, call, call + 1, state,
                               zeros, 2, bench.noise)
                              .latents;
      Tensor unit(zeros.shape(), DType::f32);
      bench.noise.step(2, call, unit);
      for (std::size_t i = 0; i < unit.span<float>().size(); ++i) {
        EXPECT_NEAR(next.span<float>()[i], deviation * unit.span<float>()[i],
                    1e-6 * std::max(1.0, deviation))
            << solver.name << " call " << call;
      }
      ++noisy;
    }
  }
  EXPECT_GT(noisy, 30);
}

/// One verification by itself.
class Verify : public ::testing::Test {
 protected:
  static constexpr int kCall = 4;

  Verify() {
    here_ = bench_.start(1);
    output_ = Tensor(here_.latents.shape(), DType::f32);
    bench_.noise.initial(8, output_);
    stepped_ = step(bench_.ctx, bench_.schedule, kCall, kCall + 1, here_,
                    output_, 1, bench_.noise)
                   .latents;
  }

  /// The draft is the step's result moved by so much.
  [[nodiscard]] Tensor drafted(float move) const {
    Tensor draft = stepped_.clone();
    for (std::size_t i = 0; i < draft.span<float>().size(); ++i) {
      draft.span<float>()[i] += move * static_cast<float>(i % 3);
    }
    return draft;
  }

  /// Latents and whether the draft passed.
  std::pair<Tensor, bool> verify(const Tensor& drafted_here,
                                 const Tensor& draft, double deviation,
                                 double uniform) {
    DecidedNoise noise(bench_.noise, uniform);
    TaskRunner runner(bench_.schedule, bench_.evaluator, noise, speculative(4));
    SlotTable slots;
    const auto put = [&](Slot slot, const Tensor& latents) {
      SolverState state;
      state.latents = latents;
      slots.put(slot, state);
    };
    slots.put(0, here_);
    put(1, drafted_here);
    slots.put(2, output_);
    put(3, draft);
    const std::vector<BoundTask> tasks = {{1,
                                           {.id = 1,
                                            .op = Op::verify,
                                            .from = kCall,
                                            .to = kCall + 1,
                                            .timestep_call = kCall,
                                            .inputs = {0, 1, 2, 3},
                                            .outputs = {4},
                                            .coefficients = {deviation}},
                                           &slots}};
    const auto results = run_tasks(runner, bench_.ctx, tasks);
    return {std::get<SolverState>(slots.get(4)).latents,
            results[0].scalars.at(0) != 0};
  }

  Bench bench_{noisy_steps(9)};
  SolverState here_;
  Tensor output_;
  Tensor stepped_;
};

TEST_F(Verify, WithoutNoisePassesTheStepsResultAlone) {
  const auto [other, passes] =
      verify(here_.latents, drafted(0.1F), 0, kAcceptsAll);
  EXPECT_FALSE(passes);
  EXPECT_TRUE(bytes_equal(other, stepped_));
  EXPECT_TRUE(verify(here_.latents, stepped_, 0, kAcceptsFew).second);
}

TEST_F(Verify, PassesTheStepsResultForSure) {
  EXPECT_TRUE(verify(here_.latents, stepped_, 0.3, kAcceptsFew).second);
}

TEST_F(Verify, ReflectsTheNoiseOfADraftThatDoesNotPass) {
  const double deviation = step_deviation(bench_.schedule, kCall, kCall + 1);
  for (const float move : {0.05F, 0.4F, -0.4F}) {
    const Tensor draft = drafted(move);
    const auto [latents, passes] =
        verify(here_.latents, draft, deviation, kAcceptsFew);
    if (passes) {  // it was the more likely of the two
      EXPECT_TRUE(bytes_equal(latents, draft));
      continue;
    }
    Tensor unit(stepped_.shape(), DType::f32);
    bench_.noise.step(1, kCall, unit);
    double before = 0;
    double after = 0;
    double across = 0;
    for (std::size_t i = 0; i < unit.span<float>().size(); ++i) {
      const double n = unit.span<float>()[i];
      const double moved =
          n +
          (latents.span<float>()[i] - stepped_.span<float>()[i]) / deviation;
      before += n * n;
      after += moved * moved;
      across +=
          (n + moved) * (draft.span<float>()[i] - stepped_.span<float>()[i]);
    }
    EXPECT_NEAR(after, before, 1e-4 * before);
    EXPECT_NEAR(across, 0, 1e-4);
  }
}

TEST_F(Verify, IsOfNoUseBehindADraftThatDidNotPass) {
  const auto [latents, passes] =
      verify(drafted(0.2F), drafted(0.1F), 0.3, kAcceptsAll);
  EXPECT_FALSE(passes);
  EXPECT_TRUE(bytes_equal(latents, here_.latents));
}

}  // namespace
}  // namespace troupe::samplers::testing

// Speculative sampling: the distribution of the sequential sampler, whatever
// the window.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/core/error.h"
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

/// A verification's next point, and whether that is its draft.
std::pair<Tensor, bool> verified(Bench& bench, NoiseSource& noise,
                                 std::uint64_t sample, int call,
                                 const std::vector<Tensor>& inputs) {
  TaskRunner runner(bench.schedule, bench.evaluator, noise, speculative(4));
  SlotTable slots;
  for (Slot slot = 0; slot < inputs.size(); ++slot) {
    SolverState state;
    state.latents = inputs[slot];
    slots.put(slot, slot == 2 ? SlotTable::Value(inputs[slot])
                              : SlotTable::Value(state));
  }
  const std::vector<BoundTask> tasks = {{sample,
                                         {.id = 1,
                                          .op = Op::verify,
                                          .from = call,
                                          .to = call + 1,
                                          .timestep_call = call,
                                          .inputs = {0, 1, 2, 3},
                                          .outputs = {4}},
                                         &slots}};
  const auto results = run_tasks(runner, bench.ctx, tasks);
  return {std::get<SolverState>(slots.get(4)).latents,
          results[0].scalars.at(0) != 0};
}

/// One verification by itself.
class Verify : public ::testing::Test {
 protected:
  static constexpr int kCall = 4;

  Verify() {
    here_ = bench_.start(1);
    output_ = Tensor(here_.latents.shape(), DType::f32);
    bench_.noise.initial(8, output_);
    stepped_ = stepped(kCall);
  }

  Tensor stepped(int call) {
    return step(bench_.ctx, bench_.schedule, call, call + 1, here_, output_, 1,
                bench_.noise)
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

  std::pair<Tensor, bool> verify(const Tensor& drafted_here,
                                 const Tensor& draft, double uniform,
                                 int call = kCall) {
    DecidedNoise noise(bench_.noise, uniform);
    return verified(bench_, noise, 1, call,
                    {here_.latents, drafted_here, output_, draft});
  }

  Bench bench_{noisy_steps(9)};
  SolverState here_;
  Tensor output_;
  Tensor stepped_;
};

TEST_F(Verify, WithoutNoisePassesTheStepsResultAlone) {
  const int last = bench_.calls() - 1;
  ASSERT_EQ(step_deviation(bench_.schedule, last, last + 1), 0.0);
  const Tensor exact = stepped(last);
  const auto [other, passes] =
      verify(here_.latents, drafted(0.1F), kAcceptsAll, last);
  EXPECT_FALSE(passes);
  EXPECT_TRUE(bytes_equal(other, exact));
  EXPECT_TRUE(verify(here_.latents, exact, kAcceptsFew, last).second);
}

TEST_F(Verify, PassesTheStepsResultForSure) {
  EXPECT_TRUE(verify(here_.latents, stepped_, kAcceptsFew).second);
}

TEST_F(Verify, KeepsTheStepsResultWhereTheDraftIsNotFinite) {
  for (const float value : {NAN, INFINITY, -INFINITY}) {
    Tensor draft = drafted(0.1F);
    draft.span<float>()[4] = value;
    const auto [latents, passes] = verify(here_.latents, draft, kAcceptsAll);
    EXPECT_FALSE(passes);
    EXPECT_TRUE(bytes_equal(latents, stepped_));
  }
}

TEST_F(Verify, PassesBelowTheRatioOfTheDensities) {
  const double deviation = step_deviation(bench_.schedule, kCall, kCall + 1);
  Tensor unit(stepped_.shape(), DType::f32);
  bench_.noise.step(1, kCall, unit);
  int tested = 0;
  for (const float move : {0.1F, -0.1F}) {
    const Tensor draft = drafted(move);
    double log_ratio = 0;
    for (std::size_t i = 0; i < unit.span<float>().size(); ++i) {
      const double n = unit.span<float>()[i];
      const double z = (static_cast<double>(draft.span<float>()[i]) -
                        stepped_.span<float>()[i]) /
                       deviation;
      log_ratio += (n * n - (n + z) * (n + z)) / 2;
    }
    if (log_ratio < -0.01) {
      const double ratio = std::exp(log_ratio);
      EXPECT_TRUE(verify(here_.latents, draft, ratio * (1 - 1e-4)).second);
      EXPECT_FALSE(verify(here_.latents, draft, ratio * (1 + 1e-4)).second);
      ++tested;
    }
  }
  EXPECT_GT(tested, 0);
}

TEST(Verification, AcceptsTheOverlapOfTheDensitiesAndKeepsTheTrueOne) {
  constexpr int kCall = 4;
  constexpr std::uint64_t kDraws = 20000;
  Bench bench(noisy_steps(9), Shape{1, 1, 1});
  PhiloxNoise noise(7);
  const SolverState here = bench.start(1);
  const Tensor output = Tensor::zeros(here.latents.shape(), DType::f32);
  const double deviation = step_deviation(bench.schedule, kCall, kCall + 1);
  for (const double z : {0.3, -1.0, 2.5}) {
    double accepted = 0;
    double sum = 0;
    double squares = 0;
    for (std::uint64_t sample = 0; sample < kDraws; ++sample) {
      Tensor unit(output.shape(), DType::f32);
      noise.step(sample, kCall, unit);
      const Tensor stepped = step(bench.ctx, bench.schedule, kCall, kCall + 1,
                                  here, output, sample, noise)
                                 .latents;
      Tensor draft = stepped.clone();
      draft.span<float>()[0] += static_cast<float>(z * deviation);
      const auto [next, passes] =
          verified(bench, noise, sample, kCall,
                   {here.latents, here.latents, output, draft});
      accepted += passes ? 1 : 0;
      // From the step's mean, in deviations.
      const double moved =
          unit.span<float>()[0] +
          (next.span<float>()[0] - stepped.span<float>()[0]) / deviation;
      sum += moved;
      squares += moved * moved;
    }
    // Bounds of five standard errors.
    const double share = std::erfc(std::fabs(z) / std::sqrt(8.0));
    EXPECT_NEAR(accepted / kDraws, share,
                5 * std::sqrt(share * (1 - share) / kDraws));
    EXPECT_NEAR(sum / kDraws, 0, 5 / std::sqrt(kDraws));
    EXPECT_NEAR(squares / kDraws, 1, 5 * std::sqrt(2.0 / kDraws));
  }
}

TEST_F(Verify, ReflectsTheNoiseOfADraftThatDoesNotPass) {
  const double deviation = step_deviation(bench_.schedule, kCall, kCall + 1);
  for (const float move : {0.05F, 0.4F, -0.4F}) {
    const Tensor draft = drafted(move);
    const auto [latents, passes] = verify(here_.latents, draft, kAcceptsFew);
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
      verify(drafted(0.2F), drafted(0.1F), kAcceptsAll);
  EXPECT_FALSE(passes);
  EXPECT_TRUE(bytes_equal(latents, here_.latents));
}

}  // namespace
}  // namespace troupe::samplers::testing

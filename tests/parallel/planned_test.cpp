// Methods whose tasks are known beforehand: how many rounds and evaluations
// their plans take, what their rows derive from them, and what drafts and jumps
// keep.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "kernels/copy.h"
#include "samplers/parallel/plan.h"
#include "samplers/solver.h"
#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

Progress progress_of(const MethodOptions& options, int num_calls) {
  Bench bench(steps(num_calls));
  const auto method = make_method(options, bench.schedule);
  (void)bench.run(*method, options);
  return method->progress();
}

TEST(Chords, TakesTheRoundsOfItsLastStart) {
  // Of the released schedules: cores, where the last one begins of 50 steps.
  const std::pair<int, int> published[] = {{4, 32}, {6, 36}, {8, 40}};
  for (const auto& [cores, start] : published) {
    const MethodOptions options{.kind = MethodKind::chords,
                                .window_size = cores};
    const Progress progress = progress_of(options, 50);
    EXPECT_EQ(progress.rounds, cores - 1 + 50 - start);
    EXPECT_EQ(progress.accepted, 50);
    EXPECT_EQ(progress.total, 50);
    EXPECT_LT(progress.nfe, cores * progress.rounds);
  }
}

TEST(Chords, HasADefaultThatItTakesOnAnyMachine) {
  for (const int calls : {1, 2, 4, 7, 10, 20, 50}) {
    for (const int workers : {1, 2, 4, 6, 8, 64}) {
      for (const MethodKind kind : {MethodKind::chords, MethodKind::parareal,
                                    MethodKind::draft, MethodKind::picard}) {
        MethodOptions options = kind->defaults({}, calls, workers);
        options.kind = kind;
        (void)make_method(options, Schedule(steps(calls)));
        EXPECT_LE(options.window_size, std::max(workers, 2));
      }
    }
  }
}

/// Distances from the sequential run, summed over samples, for `count` = 1 to 4
/// of what the method takes more of to come nearer.
void expect_nearer(Solver solver,
                   const std::function<MethodOptions(int count)>& options) {
  double sum[5] = {};
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Bench bench(steps(48, solver));
    const Tensor exact = bench.run(MethodOptions{}, seed).latents;
    for (int count = 1; count <= 4; ++count) {
      sum[count] += rmse(bench.run(options(count), seed).latents, exact);
    }
  }
  EXPECT_GT(sum[1], sum[2]);
  EXPECT_GT(sum[2], sum[3]);
  EXPECT_EQ(sum[4], 0);
}

class Nearer : public ::testing::TestWithParam<Solver> {};

TEST_P(Nearer, ChordsComesTheMoreOutputsAreWaitedFor) {
  expect_nearer(GetParam(), [](int outputs) {
    return MethodOptions{
        .kind = MethodKind::chords, .window_size = 4, .num_outputs = outputs};
  });
}

TEST_P(Nearer, PararealComesWithEachIteration) {
  expect_nearer(GetParam(), [](int iterations) {
    return MethodOptions{.kind = MethodKind::parareal,
                         .window_size = 4,
                         .iterations = iterations};
  });
}

/// Early results in the order in which a plain loop makes them, and the result.
std::vector<Tensor> results_of(Bench& bench, const MethodOptions& options) {
  TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
  const auto method = make_method(options, bench.schedule);
  SlotTable slots;
  slots.put(kInitialSlot, bench.start(3));
  std::vector<Tensor> results;
  const auto keep = [&](Slot slot) {
    results.push_back(std::get<SolverState>(slots.get(slot)).latents);
  };
  while (!method->done()) {
    std::vector<BoundTask> tasks;
    for (Task& task : method->ready(kNothingAhead)) {
      tasks.push_back({3, std::move(task), &slots});
    }
    const auto made = run_tasks(runner, bench.ctx, tasks);
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (tasks[i].task.is_early_result) {
        keep(state_of(tasks[i].task).value());
      }
      slots.erase(method->apply(made[i]).value());
    }
  }
  keep(method->result_slot());
  return results;
}

TEST(EarlyResults, AreThoseOfFewerOutputsAndIterations) {
  for (const MethodOptions& most :
       {MethodOptions{
            .kind = MethodKind::chords, .window_size = 4, .num_outputs = 4},
        MethodOptions{
            .kind = MethodKind::chords, .window_size = 6, .num_outputs = 3},
        MethodOptions{
            .kind = MethodKind::parareal, .window_size = 5, .iterations = 5},
        MethodOptions{
            .kind = MethodKind::parareal, .window_size = 4, .iterations = 3}}) {
    Bench bench(steps(40));
    MethodOptions options = most;
    options.has_early_results = true;
    const std::vector<Tensor> results = results_of(bench, options);
    const bool is_chords = options.kind == MethodKind::chords;
    ASSERT_EQ(results.size(),
              static_cast<std::size_t>(is_chords ? most.num_outputs
                                                 : most.iterations));
    for (std::size_t i = 0; i < results.size(); ++i) {
      MethodOptions fewer = most;
      (is_chords ? fewer.num_outputs : fewer.iterations) =
          static_cast<int>(i) + 1;
      EXPECT_TRUE(bytes_equal(results[i], bench.run(fewer, 3).latents))
          << options.kind->name << ", " << i + 1;
      EXPECT_EQ(results_of(bench, fewer).size(), 1U) << "nobody asked for them";
    }
  }
}

TEST(Chords, RefusesSolversThatItCannotCarry) {
  for (const Solver solver : {Solver::ddpm, Solver::heun, Solver::pndm}) {
    const Schedule schedule(steps(20, solver));
    try {
      (void)make_method({.kind = MethodKind::chords, .window_size = 4},
                        schedule);
      ADD_FAILURE() << "took it";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::unsupported);
    }
  }
}

TEST(Chords, RefusesMoreCoresThanThereAreStarts) {
  const Schedule schedule(steps(6));
  try {
    (void)make_method({.kind = MethodKind::chords, .window_size = 6}, schedule);
    ADD_FAILURE() << "took them";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    EXPECT_EQ(error.place(), "window_size");
  }
}

TEST(Draft, CallsTheNetworkOnceAStep) {
  for (const int calls : {1, 2, 7, 20, 50}) {
    for (const int window : {1, 2, 3, 4, 8}) {
      if (window > calls) {
        continue;
      }
      MethodOptions options{.kind = MethodKind::draft, .window_size = window};
      Progress progress = progress_of(options, calls);
      EXPECT_EQ(progress.nfe, calls);
      EXPECT_EQ(progress.rounds, 1 + (calls - 1 + window - 1) / window);
      options.anchor = Anchor::fresh;
      progress = progress_of(options, calls);
      EXPECT_EQ(progress.nfe, calls);
      const int windows = calls / (window + 1);
      const int left = calls % (window + 1);
      EXPECT_EQ(progress.rounds, 2 * windows + std::min(left, 2))
          << calls << " calls, window " << window;
    }
  }
}

TEST(Parareal, TakesOneBlockAndOneEvaluationForEachOther) {
  for (const auto& [calls, blocks] : {std::pair(48, 4), {50, 5}, {36, 6}}) {
    MethodOptions options{.kind = MethodKind::parareal, .window_size = blocks};
    const Progress progress = progress_of(options, calls);
    EXPECT_EQ(progress.rounds, calls / blocks + blocks - 1);
    // The steps of each block, and new jumps over all but the first.
    EXPECT_EQ(progress.nfe, calls + blocks - 1);
    options.iterations = blocks;
    EXPECT_EQ(progress_of(options, calls).rounds, calls);
  }
}

INSTANTIATE_TEST_SUITE_P(Solvers, Nearer,
                         ::testing::Values(Solver::ddim, Solver::dpmpp,
                                           Solver::unipc));

/// Output of a network for which the clean sample is everywhere the same.
class ConstantSample final : public Evaluator {
 public:
  explicit ConstantSample(const Schedule& schedule) : schedule_(schedule) {}
  [[nodiscard]] Shape latent_shape() const override { return {1, 3, 5}; }
  [[nodiscard]] std::int64_t out_channels() const override { return 1; }
  [[nodiscard]] int num_segments() const override { return 1; }
  void evaluate(ExecContext& /*ctx*/, std::span<EvaluateRow> rows) override {
    for (EvaluateRow& row : rows) {
      const auto call = std::ranges::find(schedule_.timesteps(), row.timestep) -
                        schedule_.timesteps().begin();
      const NoiseLevel level = schedule_.level(static_cast<int>(call));
      const auto x = row.latents.span<float>();
      const auto out = row.output.span<float>();
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double clean = 0.1 * static_cast<double>(i) - 0.5;
        out[i] = static_cast<float>(
            (static_cast<double>(x[i]) - level.alpha * clean) / level.sigma);
      }
    }
  }
  void combine(ExecContext&, double, const Tensor&, const Tensor&,
               Tensor&) override {}
  void run_segment(ExecContext&, int, std::span<SegmentRow>) override {}
  void decode(ExecContext&, const Tensor&, Tensor&) override {}

 private:
  const Schedule& schedule_;
};

TEST(Drafts, AreThePointsThemselvesWhereTheCleanSampleStaysTheSame) {
  for (const Solver solver : {Solver::ddim, Solver::dpmpp, Solver::unipc}) {
    Bench bench(steps(20, solver));
    ConstantSample network(bench.schedule);
    const auto last_of = [&](const MethodOptions& options) {
      TaskRunner runner(bench.schedule, network, bench.noise, options);
      const auto method = make_method(options, bench.schedule);
      return run_local(*method, runner, bench.ctx, 1, bench.start(1)).latents;
    };
    const Tensor exact = last_of({});
    for (const MethodOptions& options :
         {MethodOptions{.kind = MethodKind::draft, .window_size = 6},
          MethodOptions{.kind = MethodKind::chords, .window_size = 4},
          MethodOptions{.kind = MethodKind::parareal, .window_size = 4}}) {
      EXPECT_LT(rmse(last_of(options), exact), 1e-5) << options.kind->name;
    }
  }
}

TEST(Plan, SaysWhatASampleTakesOnFewerWorkers) {
  const MethodOptions chords{.kind = MethodKind::chords, .window_size = 4};
  const Turn on_four = turn_of(chords, {.num_calls = 50, .num_workers = 4});
  EXPECT_EQ(on_four.latency, 21);
  const Turn on_one = turn_of(chords, {.num_calls = 50, .num_workers = 1});
  EXPECT_EQ(on_one.latency, on_one.evaluations);
  EXPECT_EQ(on_one.busy, on_one.evaluations);
  const MethodOptions pipeline{.kind = MethodKind::pipeline, .num_segments = 2};
  const Turn uneven =
      turn_of(pipeline,
              {.num_calls = 10, .num_workers = 2, .part_shares = {0.75, 0.25}});
  EXPECT_DOUBLE_EQ(uneven.latency, 10);
  EXPECT_DOUBLE_EQ(uneven.busy, 7.5);
  const MethodOptions cfg{.kind = MethodKind::cfg};
  EXPECT_DOUBLE_EQ(turn_of(cfg, {.num_calls = 10, .num_workers = 2}).latency,
                   5);
  EXPECT_EQ(most_tasks(cfg, 10), 30);
}

/// A network that sees the same clean sample whatever the latents are: drafts
/// are then the points themselves.
struct KnowsTheCleanSample : ToyEvaluator {
  explicit KnowsTheCleanSample(const Schedule& of)
      : ToyEvaluator(Shape{1, 3, 5}, 3, learns_variance(of.options())),
        schedule(of) {}

  void evaluate(ExecContext& ctx, std::span<EvaluateRow> rows) override {
    for (EvaluateRow& row : rows) {
      fill(ctx, row.timestep, row.latents, row.output);
    }
  }
  void run_segment(ExecContext& ctx, int segment,
                   std::span<SegmentRow> rows) override {
    for (SegmentRow& row : rows) {
      if (segment == 0) {
        row.boundary = {{"x", kernels::clone(ctx, row.latents)}};
      }
      if (segment + 1 == num_segments()) {
        fill(ctx, row.timestep, row.boundary[0].tensor, row.output);
      }
    }
  }

 private:
  void fill(ExecContext& ctx, double timestep, const Tensor& scaled,
            Tensor& out) const {
    int call = 0;
    while (schedule.timestep(call) != timestep) {
      ++call;
    }
    Tensor ones = Tensor::zeros(latent_shape(), DType::f32);
    std::ranges::fill(ones.span<float>(), 1.0F);
    const Tensor scale = scale_model_input(ctx, schedule, call, ones);
    Tensor latents = kernels::clone(ctx, scaled);
    Tensor clean = Tensor::zeros(latent_shape(), DType::f32);
    for (std::size_t i = 0; i < 15; ++i) {
      latents.span<float>()[i] /= scale.span<float>()[i];
      clean.span<float>()[i] = 0.1F * static_cast<float>(i) - 0.7F;
    }
    const Tensor output = output_for(ctx, schedule, call, latents, clean,
                                     Tensor::zeros(out.shape(), DType::f32));
    kernels::copy(ctx, output, out);
  }

  const Schedule& schedule;
};

TEST(Drafts, AreThePointsOfANetworkThatKnowsTheCleanSample) {
  for (const SolverCase& solver : solver_cases(10)) {
    if (solver.options.rescale_betas_zero_snr) {
      continue;  // of pure noise an output does not say the clean sample
    }
    Bench bench(solver.options);
    KnowsTheCleanSample network(bench.schedule);
    const std::map<int, Tensor> expected = points_of(
        bench, network, {.kind = MethodKind::pipeline, .num_segments = 3});
    for (const MethodOptions& options :
         {MethodOptions{.kind = MethodKind::draft, .window_size = 3},
          MethodOptions{.kind = MethodKind::draft,
          .window_size = 3,
          .anchor = Anchor::fresh},
          MethodOptions{.kind = MethodKind::stale,
          .num_segments = 3,
          .stale_at = StaleAt::latents}}) {
      const std::map<int, Tensor> points = points_of(bench, network, options);
      ASSERT_EQ(points.size(), expected.size());
      for (const auto& [call, latents] : points) {
        EXPECT_LE(rmse(latents, expected.at(call)), 1e-4)
            << solver.name << ", " << options.kind->name << ", point " << call;
      }
    }
  }
}

TEST(Plan, CountsRoundsOfAnOnionWhoseStepsOverlap) {
  for (const CutShape cut : {CutShape::chain, CutShape::onion}) {
    const MethodOptions options{.kind = MethodKind::stale,
                                .num_segments = 2,
                                .cut = cut,
                                .stale_at = StaleAt::latents};
    Bench bench(steps(50), Shape{1, 3, 5}, num_segments(options));
    const auto method = make_method(options, bench.schedule);
    (void)bench.run(*method, options);
    EXPECT_EQ(method->progress().nfe, 50);
    EXPECT_EQ(method->progress().rounds, 26);
  }
}

TEST(Plan, RefusesMoreTasksThanFit) {
  const Schedule schedule(steps(20));
  try {
    (void)make_method({.kind = MethodKind::pipeline, .num_segments = 1 << 20},
                      schedule);
    ADD_FAILURE() << "took them";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported);
  }
}

}  // namespace
}  // namespace troupe::samplers::testing

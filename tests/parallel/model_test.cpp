// The same promises over real networks: the mixture denoiser and a small DiT.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "kernels/elementwise.h"
#include "models/dit/dit.h"
#include "models/files/weight_source.h"
#include "models/network/block_cache.h"
#include "tests/models/dit_cases.h"
#include "tests/models/gaussian_mixture.h"
#include "tests/parallel/picard_rounds.h"
#include "tests/parallel/run_local.h"
#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

/// A denoiser as an Evaluator: both guidance branches are rows of one forward.
class Network : public Evaluator {
 public:
  Network(const models::Denoiser& denoiser, int num_segments)
      : denoiser_(denoiser), num_segments_(num_segments) {}

  [[nodiscard]] Shape latent_shape() const override {
    return denoiser_.info().latent_shape;
  }
  [[nodiscard]] std::int64_t out_channels() const override {
    return denoiser_.info().out_channels;
  }
  [[nodiscard]] int num_segments() const override { return num_segments_; }

  void evaluate(ExecContext& ctx, std::span<EvaluateRow> rows) override {
    Rows all;
    for (const EvaluateRow& row : rows) {
      for (const Branch branch : branches(row.branch)) {
        add(ctx, all, row.latents, row.timestep, row.sample_index, branch);
      }
    }
    denoiser_.predict(ctx, whole_, all.batch(), all.outputs);
    join_branches(ctx, std::span<const Tensor>(all.outputs), rows);
  }

  void evaluate_cached(ExecContext& ctx, std::span<CachedRow> rows) override {
    Rows all;
    std::vector<models::CachedRows> groups;
    for (CachedRow& row : rows) {
      for (const Branch branch : branches(row.branch)) {
        add(ctx, all, row.latents, row.timestep, row.sample_index, branch);
      }
      groups.push_back({.size = branches(row.branch).size(),
                        .threshold = row.threshold,
                        .cache = std::move(row.cache)});
    }
    models::predict_cached(ctx, denoiser_, all.batch(), groups, all.outputs);
    join_branches(ctx, std::span<const Tensor>(all.outputs), rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].cache = std::move(groups[i].cache);
      rows[i].is_reused = groups[i].is_reused;
    }
  }

  void combine(ExecContext& ctx, double /*timestep*/, const Tensor& cond,
               const Tensor& uncond, Tensor& out) override {
    kernels::guide(ctx, cond, uncond, 2.5, denoiser_.info().guided_channels,
                   out);
  }

  void run_segment(ExecContext& ctx, int segment,
                   std::span<SegmentRow> rows) override {
    const auto blocks = static_cast<int>(denoiser_.info().blocks.size());
    Rows all;
    std::vector<Boundary> boundaries;
    const Tensor none = Tensor::zeros(latent_shape(), DType::f32);
    for (SegmentRow& row : rows) {
      const std::size_t half = row.boundary.size() / 2;
      for (const Branch branch : branches(Branch::guided)) {
        add(ctx, all, segment == 0 ? row.latents : none, row.timestep,
            row.sample_index, branch);
        const auto first =
            row.boundary.begin() + (branch == Branch::cond ? 0 : half);
        boundaries.emplace_back(first, first + half);
      }
    }
    if (segment == 0) {
      denoiser_.embed(ctx, whole_, all.batch(), boundaries);
    }
    denoiser_.run_blocks(ctx, whole_, all.batch(),
                         segment * blocks / num_segments_,
                         (segment + 1) * blocks / num_segments_, boundaries);
    const bool last = segment + 1 == num_segments_;
    if (last) {
      denoiser_.finish(ctx, whole_, all.batch(), boundaries, all.outputs);
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (last) {
        combine(ctx, rows[i].timestep, all.outputs[2 * i],
                all.outputs[2 * i + 1], rows[i].output);
      } else {
        rows[i].boundary = boundaries[2 * i];
        rows[i].boundary.insert(rows[i].boundary.end(),
                                boundaries[2 * i + 1].begin(),
                                boundaries[2 * i + 1].end());
      }
    }
  }

  void decode(ExecContext& /*ctx*/, const Tensor& latents,
              Tensor& pixels) override {
    pixels = latents.clone();
  }

 private:
  struct Rows {
    std::vector<Tensor> latents;
    std::vector<double> timesteps;
    std::vector<models::PreparedPtr> prepared;
    std::vector<const models::PreparedCondition*> conditions;
    std::vector<Tensor> outputs;
    [[nodiscard]] models::Batch batch() const {
      return {latents, timesteps, conditions, latents.front().shape()};
    }
  };

  template <typename Row>
  void join_branches(ExecContext& ctx, std::span<const Tensor> outputs,
                     std::span<Row> rows) {
    std::size_t next = 0;
    for (Row& row : rows) {
      if (row.branch == Branch::guided) {
        combine(ctx, row.timestep, outputs[next], outputs[next + 1],
                row.output);
        next += 2;
      } else {
        std::copy_n(outputs[next].bytes().data(), row.output.num_bytes(),
                    row.output.bytes().data());
        ++next;
      }
    }
  }
  static std::vector<Branch> branches(Branch branch) {
    return branch == Branch::guided ? std::vector{Branch::cond, Branch::uncond}
                                    : std::vector{branch};
  }
  void add(ExecContext& ctx, Rows& rows, const Tensor& latents, double timestep,
           std::uint64_t sample_index, Branch branch) const {
    const std::int64_t classes = denoiser_.info().num_classes;
    const auto label = static_cast<std::int64_t>(sample_index) % classes;
    rows.latents.push_back(latents);
    rows.timesteps.push_back(timestep);
    rows.prepared.push_back(
        denoiser_.prepare(ctx, {branch == Branch::uncond ? classes : label}));
    rows.conditions.push_back(rows.prepared.back().get());
    rows.outputs.emplace_back(
        Shape{out_channels(), latent_shape()[1], latent_shape()[2]},
        DType::f32);
  }

  const models::Denoiser& denoiser_;
  int num_segments_;
  ShardContext whole_;
};

std::vector<MethodOptions> exact_methods(int calls) {
  return {
      {.kind = MethodKind::batch},
      {.kind = MethodKind::cfg},
      {.kind = MethodKind::pipeline, .num_segments = 3},
      {.kind = MethodKind::picard, .window_size = 3},
      {.kind = MethodKind::picard,
       .window_size = calls,
       .carry = Carry::identity,
       .initial_guess = InitialGuess::constant_x0},
      {.kind = MethodKind::stale, .num_segments = 3, .age = 0},
      {.kind = MethodKind::stale, .num_segments = 3, .warmup_steps = calls}};
}

Tensor run_on(const models::Denoiser& denoiser, const Schedule& schedule,
              const MethodOptions& options, int threads,
              std::uint64_t sample_index) {
  Network network(denoiser, 3);
  ToyNoise noise;
  ExecContext ctx(threads);
  Tensor unit(network.latent_shape(), DType::f32);
  noise.initial(sample_index, unit);
  TaskRunner runner(schedule, network, noise, options);
  const auto method = make_method(options, schedule);
  return run_local(*method, runner, ctx, sample_index,
                   initial_state(ctx, schedule, unit))
      .latents;
}

/// The solvers that can use this network.
std::vector<SolverCase> cases_for(const models::Denoiser& denoiser,
                                  int num_steps) {
  const models::DenoiserInfo& info = denoiser.info();
  std::vector<SolverCase> cases = solver_cases(num_steps);
  if (info.out_channels == info.latent_shape[0]) {
    std::erase_if(cases, [](const SolverCase& solver) {
      return learns_variance(solver.options);
    });
  }
  return cases;
}

void expect_exact(const models::Denoiser& denoiser, int num_steps) {
  for (const SolverCase& solver : cases_for(denoiser, num_steps)) {
    const Schedule schedule(solver.options);
    const Tensor expected = run_on(denoiser, schedule, {}, 1, 1);
    for (const MethodOptions& options :
         exact_methods(schedule.num_model_calls())) {
      EXPECT_TRUE(
          bytes_equal(run_on(denoiser, schedule, options, 2, 1), expected))
          << solver.name << ", method " << options.kind->name;
    }
  }
}

models::GaussianMixture mixture_denoiser() {
  return models::GaussianMixture(
      models::random_mixture(3, Shape{2, 4, 4}, 3, 2, 4));
}

std::unique_ptr<models::Denoiser> small_dit(const models::DitCase& dit) {
  models::DitConfig config;
  config.num_attention_heads = 2;
  config.attention_head_dim = dit.head_dim;
  config.num_layers = 4;
  config.out_channels = 8;  // with a variance that most solvers drop
  config.sample_size = 8;
  config.num_classes = 5;
  ExecContext ctx(1);
  models::RandomWeights weights(ctx, 9);
  return models::describe(config)->load(ctx, dit.compute, weights);
}

TEST(ExactMethods, OverTheMixtureDenoiserEqualSequential) {
  expect_exact(mixture_denoiser(), 7);
}

using SmallRandomDit = models::DitTest;

TEST_P(SmallRandomDit, ExactMethodsEqualSequential) {
  expect_exact(*small_dit(GetParam()), 4);
}

/// What holds of a sweep, whatever the network is.
void expect_sweeps_to_be_exact(const models::Denoiser& denoiser) {
  for (const SolverCase& solver : cases_for(denoiser, 4)) {
    Network network(denoiser, 1);
    Bench bench(solver.options, network.latent_shape());
    for (const Carry carry : {Carry::identity, Carry::coefficient}) {
      for (const InitialGuess guess :
           {InitialGuess::last_point, InitialGuess::linear_x0}) {
        expect_exact_after_sweeps(bench, network, guess, carry, solver.name);
      }
    }
    expect_exact_is_kept(bench, network, solver.name);
  }
}

TEST(PicardSweeps, OverTheMixtureDenoiserAreExactUpToTheirNumber) {
  expect_sweeps_to_be_exact(mixture_denoiser());
}

TEST_P(SmallRandomDit, PicardSweepsAreExactUpToTheirNumber) {
  expect_sweeps_to_be_exact(*small_dit(GetParam()));
}

void expect_closer_as_the_tolerance_falls(const models::Denoiser& denoiser,
                                          int num_steps,
                                          std::uint64_t samples) {
  const Schedule schedule(steps(num_steps));
  double before = 1e9;
  for (const double tolerance : {0.3, 0.1, 0.03, 0.01, 0.0}) {
    double error = 0;
    for (std::uint64_t sample = 0; sample < samples; ++sample) {
      const MethodOptions options{
          .kind = MethodKind::picard, .window_size = 6, .tolerance = tolerance};
      error += rmse(run_on(denoiser, schedule, options, 1, sample),
                    run_on(denoiser, schedule, {}, 1, sample));
    }
    EXPECT_LE(error, before) << tolerance;
    before = error;
  }
  EXPECT_EQ(before, 0.0);
}

TEST(ApproximateMethods, ComeCloserToTheMixturesAnswerAsTheToleranceFalls) {
  expect_closer_as_the_tolerance_falls(mixture_denoiser(), 30, 4);
}

TEST_P(SmallRandomDit, ApproximateMethodsComeCloserAsTheToleranceFalls) {
  expect_closer_as_the_tolerance_falls(*small_dit(GetParam()), 20, 2);
}

/// Several samples through shared forwards, each joining a round after the one
/// before it: a row's neighbours are other samples, branches and steps.
std::vector<Tensor> run_together(const models::Denoiser& denoiser,
                                 const Schedule& schedule,
                                 const MethodOptions& options, int threads,
                                 std::size_t samples) {
  Network network(denoiser, 3);
  ToyNoise noise;
  ExecContext ctx(threads);
  TaskRunner runner(schedule, network, noise, options);
  std::vector<std::unique_ptr<Method>> methods;
  std::vector<SlotTable> slots(samples);
  std::vector<BoundTask> tasks;
  do {
    if (const std::size_t next = methods.size(); next < samples) {
      Tensor unit(network.latent_shape(), DType::f32);
      noise.initial(next, unit);
      slots[next].put(kInitialSlot, initial_state(ctx, schedule, unit));
      methods.push_back(make_method(options, schedule));
    }
    tasks.clear();
    for (std::size_t i = 0; i < methods.size(); ++i) {
      for (Task& task : methods[i]->ready(kNothingAhead)) {
        tasks.push_back({i, std::move(task), &slots[i]});
      }
    }
    const auto results = run_tasks(runner, ctx, tasks);
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(methods[tasks[i].sample_index]->apply(results[i]));
    }
  } while (!tasks.empty());
  std::vector<Tensor> latents;
  for (std::size_t i = 0; i < samples; ++i) {
    EXPECT_TRUE(methods[i]->done());
    latents.push_back(
        std::get<SolverState>(slots[i].get(methods[i]->result_slot())).latents);
  }
  return latents;
}

TEST_P(SmallRandomDit, ASampleAmongOthersHasTheBytesItHasAlone) {
  const auto its = small_dit(GetParam());
  const models::Denoiser& dit = *its;
  for (const MethodOptions& options : method_cases()) {
    const Schedule schedule(options.kind == MethodKind::speculative
                                ? steps_for(options, 6)
                                : steps(6, Solver::dpmpp));
    for (const int threads : {1, 3}) {
      const auto together = run_together(dit, schedule, options, threads, 4);
      for (std::size_t i = 0; i < together.size(); ++i) {
        EXPECT_TRUE(
            bytes_equal(together[i], run_on(dit, schedule, options, 1, i)))
            << "method " << options.kind->name << ", sample " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Compute, SmallRandomDit,
                         ::testing::ValuesIn(models::dit_cases()),
                         models::name_of_dit);

}  // namespace
}  // namespace troupe::samplers::testing

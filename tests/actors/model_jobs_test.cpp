// Whole jobs over real networks: what a company of actors gives equals a plain
// loop that knows no method, task or actor.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/denoiser_evaluator.h"
#include "actors/runtime.h"
#include "models/dit/dit.h"
#include "models/files/weight_source.h"
#include "tests/actors/company_suite.h"
#include "tests/actors/job_support.h"
#include "tests/models/dit_cases.h"
#include "tests/models/gaussian_mixture.h"
#include "tests/parallel/run_local.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;
using samplers::Modifier;
using samplers::Schedule;
using samplers::ScheduleOptions;
using samplers::Solver;

constexpr std::uint64_t kSamples = 4;
constexpr int kSegments = 3;

using Latents = std::map<std::uint64_t, Tensor>;

class ModelCollector final : public Observer {
 public:
  void on_sample(const SampleOutcome& outcome) override {
    latents[outcome.report.sample_index] = outcome.latents;
  }
  Latents latents;
};

ScheduleOptions schedule_options_of(Solver solver, int steps) {
  ScheduleOptions options;
  options.solver = solver;
  options.num_inference_steps = steps;
  options.clip_sample = false;
  return options;
}

/// Every solver; Heun, UniPC and the stochastic ones among them, and DDPM with
/// a learned variance where the network has one.
std::vector<ScheduleOptions> schedules(const models::DenoiserInfo& info,
                                       int steps) {
  std::vector<ScheduleOptions> all;
  for (const Solver solver :
       {Solver::ddim, Solver::ddpm, Solver::dpmpp, Solver::euler,
        Solver::euler_ancestral, Solver::heun, Solver::unipc, Solver::pndm,
        Solver::flow_euler}) {
    all.push_back(schedule_options_of(solver, steps));
  }
  if (info.out_channels == 2 * info.latent_shape[0]) {
    all.push_back(schedule_options_of(Solver::ddpm, steps));
    all.back().variance_type = samplers::VarianceType::learned_range;
  }
  return all;
}

/// `timesteps`: announced beforehand, as jobs of the program do.
DenoiserEvaluator evaluator_of(const models::Denoiser& denoiser,
                               int num_segments,
                               std::vector<double> timesteps = {}) {
  const models::DenoiserInfo& info = denoiser.info();
  EvaluatorOptions options =
      class_options(info, 2.5, info.num_classes, num_segments);
  options.job.schedule.timesteps = std::move(timesteps);
  return {loaded(denoiser), std::move(options)};
}

samplers::SolverState start(const Schedule& schedule, const Shape& shape,
                            samplers::NoiseSource& noise, std::uint64_t index) {
  Tensor unit(shape, DType::f32);
  noise.initial(index, unit);
  ExecContext ctx;
  return initial_state(ctx, schedule, unit);
}

/// Evaluate, step, evaluate, step.
Latents plain_loop(const models::Denoiser& denoiser, const Schedule& schedule) {
  DenoiserEvaluator evaluator = evaluator_of(denoiser, 1);
  samplers::PhiloxNoise noise(11);
  ExecContext ctx(1);
  Latents all;
  for (std::uint64_t index = 0; index < kSamples; ++index) {
    auto state = start(schedule, evaluator.latent_shape(), noise, index);
    for (int call = 0; call < schedule.num_model_calls(); ++call) {
      const Shape shape = evaluator.latent_shape();
      std::vector<samplers::EvaluateRow> rows(1);
      rows[0] = {
          .sample_index = index,
          .timestep = schedule.timestep(call),
          .latents = scale_model_input(ctx, schedule, call, state.latents),
          .output = Tensor({evaluator.out_channels(), shape[1], shape[2]},
                           DType::f32)};
      evaluator.evaluate(ctx, rows);
      state = step(ctx, schedule, call, call + 1, state, rows[0].output, index,
                   noise);
    }
    all[index] = state.latents;
  }
  return all;
}

int segments_of(const MethodOptions& method) {
  return method.kind == MethodKind::pipeline || method.kind == MethodKind::stale
             ? method.num_segments
             : 1;
}

/// The method without actors, one sample after another.
Latents run_local_loop(const models::Denoiser& denoiser,
                       const Schedule& schedule, const MethodOptions& options) {
  DenoiserEvaluator evaluator = evaluator_of(denoiser, segments_of(options));
  samplers::PhiloxNoise noise(11);
  ExecContext ctx(1);
  samplers::TaskRunner runner(schedule, evaluator, noise, options);
  Latents all;
  for (std::uint64_t index = 0; index < kSamples; ++index) {
    const auto method = make_method(options, schedule);
    all[index] =
        run_local(*method, runner, ctx, index,
                  start(schedule, evaluator.latent_shape(), noise, index))
            .latents;
  }
  return all;
}

Latents run_company(const models::Denoiser& denoiser, const Schedule& schedule,
                    const MethodOptions& method, int workers, int threads) {
  DenoiserEvaluator evaluator =
      evaluator_of(denoiser, segments_of(method),
                   {schedule.timesteps().begin(), schedule.timesteps().end()});
  samplers::PhiloxNoise noise(11);
  ModelCollector seen;
  JobSpec spec;
  spec.parts.schedule = unowned(schedule);
  spec.parts.method = method;
  spec.parts.evaluator = unowned(evaluator);
  spec.parts.noise = unowned(noise);
  spec.end = kSamples;
  spec.workers = cpu_workers(workers, threads, 3);
  spec.observers = {&seen};
  const JobResult result = run_in_suite(spec);
  EXPECT_FALSE(result.failure);
  EXPECT_EQ(result.count(SampleStatus::done), kSamples);
  return seen.latents;
}

void expect_same(const Latents& got, const Latents& expected,
                 const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (const auto& [index, latents] : expected) {
    EXPECT_TRUE(bytes_equal(got.at(index), latents))
        << what << ", sample " << index;
  }
}

std::string label(const Schedule& schedule, const MethodOptions& method,
                  int workers) {
  return "solver " + std::string(schedule.options().solver->name) +
         ", method " + to_string(method.kind) + ", " + std::to_string(workers) +
         " workers";
}

void expect_exact(const models::Denoiser& denoiser, int steps) {
  for (const ScheduleOptions& options : schedules(denoiser.info(), steps)) {
    const Schedule schedule(options);
    const Latents expected = plain_loop(denoiser, schedule);
    for (const MethodOptions& method :
         {MethodOptions{.kind = MethodKind::sequential},
          {.kind = MethodKind::batch},
          {.kind = MethodKind::cfg},
          {.kind = MethodKind::pipeline, .num_segments = kSegments},
          {.kind = MethodKind::picard, .window_size = 3},
          {.kind = MethodKind::stale, .num_segments = kSegments, .age = 0}}) {
      for (const auto& [workers, threads] : {std::pair{1, 2}, {2, 1}, {3, 1}}) {
        expect_same(run_company(denoiser, schedule, method, workers, threads),
                    expected, label(schedule, method, workers));
      }
    }
  }
}

/// Stale pipelines and Picard with a tolerance: their own answer, whoever
/// computes it.
void expect_reproducible(const models::Denoiser& denoiser, int steps,
                         const std::vector<MethodOptions>& more = {}) {
  for (const Solver solver : {Solver::ddim, Solver::dpmpp, Solver::ddpm}) {
    const Schedule schedule(schedule_options_of(solver, steps));
    const Latents exact = plain_loop(denoiser, schedule);
    std::vector<MethodOptions> methods = {
        {.kind = MethodKind::stale, .num_segments = kSegments},
        {.kind = MethodKind::stale,
         .num_segments = kSegments,
         .stride = 2,
         .warmup_steps = 2,
         .final_fresh_steps = 1},
        {.kind = MethodKind::picard, .window_size = 4, .tolerance = 20}};
    methods.insert(methods.end(), more.begin(), more.end());
    for (const MethodOptions& method : methods) {
      const Latents expected = run_local_loop(denoiser, schedule, method);
      EXPECT_FALSE(bytes_equal(expected.at(1), exact.at(1)))
          << label(schedule, method, 0);
      for (const int workers : {1, 2, 4}) {
        expect_same(run_company(denoiser, schedule, method, workers, 1),
                    expected, label(schedule, method, workers));
      }
    }
  }
}

std::unique_ptr<models::Denoiser> small_dit(const models::DitCase& dit) {
  models::DitConfig config;
  config.num_attention_heads = 2;
  config.attention_head_dim = dit.head_dim;
  config.out_channels = 8;  // with a variance
  config.num_layers = 4;
  config.sample_size = 8;
  config.num_classes = 5;
  ExecContext ctx(1);
  models::RandomWeights weights(ctx, 9);
  return models::describe(config)->load(ctx, dit.compute, weights);
}

models::GaussianMixture small_mixture() {
  return models::GaussianMixture(
      models::random_mixture(3, Shape{2, 4, 4}, 3, 2, 4));
}

TEST(CompanyOverTheMixture, GivesThePlainLoopsBytesByEveryExactMethod) {
  expect_exact(small_mixture(), 6);
}

TEST(CompanyOverTheMixture, GivesApproximateMethodsTheirOwnBytes) {
  expect_reproducible(small_mixture(), 10);
}

using CompanyOverASmallDit = models::DitTest;

TEST_P(CompanyOverASmallDit, GivesThePlainLoopsBytesByEveryExactMethod) {
  expect_exact(*small_dit(GetParam()), 4);
}

TEST_P(CompanyOverASmallDit, GivesApproximateMethodsTheirOwnBytes) {
  expect_reproducible(*small_dit(GetParam()), 8,
                      {{.kind = MethodKind::batch.with(Modifier::cache),
                        .cache_threshold = 1.2},
                       {.kind = MethodKind::draft.with(Modifier::cache),
                        .window_size = 3,
                        .cache_threshold = 1.2}});
}

INSTANTIATE_TEST_SUITE_P(Compute, CompanyOverASmallDit,
                         testing::ValuesIn(models::dit_cases()),
                         models::name_of_dit);

/// U-ViT: blocks of the second half take the skips of the first.
std::unique_ptr<models::DenoiserDescription> small_uvit() {
  const models::Json config = models::Json::parse(
      R"({"_class_name":"UViT","img_size":8,"patch_size":2,"in_chans":4,
          "depth":6,"num_heads":2,"num_classes":3,"embed_dim":32})",
      "config.json");
  return models::find_denoiser(config, "UViT").describe(config);
}

/// Bytes that one sample's values take on their way to other parts.
struct Crossings {
  /// Of what segment s + 1 reads of segment s, by segment and model call.
  std::map<std::pair<int, int>, std::uint64_t> boundaries;
  std::uint64_t skips = 0;
  std::uint64_t outputs = 0;  ///< of the network, in all calls
  int skips_at_home = 0;      ///< values that a part reads of its own
};

std::uint64_t bytes_of(const samplers::SlotTable::Value& value) {
  std::uint64_t bytes = 0;
  if (const auto* const boundary = std::get_if<Boundary>(&value)) {
    for (const NamedTensor& one : *boundary) {
      bytes += one.tensor.num_bytes();
    }
  } else {
    bytes = std::get<Tensor>(value).num_bytes();
  }
  return bytes;
}

Crossings crossings_of(const models::Denoiser& denoiser,
                       const Schedule& schedule, const MethodOptions& method,
                       const std::vector<int>& cuts) {
  EvaluatorOptions options = class_options(denoiser.info(), 2.5, 3);
  options.job.cuts = cuts;
  options.job.method = method;
  DenoiserEvaluator evaluator(loaded(denoiser), std::move(options));
  samplers::PhiloxNoise noise(11);
  ExecContext ctx(1);
  samplers::TaskRunner runner(schedule, evaluator, noise, method);
  const auto machine = make_method(method, schedule);
  samplers::SlotTable slots;
  slots.put(samplers::kInitialSlot,
            start(schedule, evaluator.latent_shape(), noise, 0));
  std::map<samplers::Slot, samplers::Task> makers;
  Crossings found;
  while (!machine->done()) {
    std::vector<samplers::BoundTask> tasks;
    for (samplers::Task& task : machine->ready(samplers::kNothingAhead)) {
      for (const samplers::Slot slot : task.outputs) {
        makers[slot] = task;
      }
      tasks.push_back({0, std::move(task), &slots});
    }
    for (const samplers::BoundTask& bound : tasks) {
      const samplers::Task& task = bound.task;
      for (const samplers::Slot slot : task.inputs) {
        const auto maker = makers.find(slot);
        if (maker == makers.end()) {
          continue;  // every process makes the initial state
        }
        const samplers::Task& made = maker->second;
        const auto place = static_cast<std::size_t>(
            std::ranges::find(made.outputs, slot) - made.outputs.begin());
        const samplers::ValueKind kind =
            output_kind(made, place, samplers::num_segments(method));
        const bool crosses = made.part != task.part;
        if (kind == samplers::ValueKind::boundary && crosses) {
          found.boundaries[{made.segment, task.from}] +=
              bytes_of(slots.get(slot));
        } else if (kind == samplers::ValueKind::skips) {
          found.skips += crosses ? bytes_of(slots.get(slot)) : 0;
          found.skips_at_home += crosses ? 0 : 1;
        } else if (kind == samplers::ValueKind::output && crosses) {
          found.outputs += bytes_of(slots.get(slot));
        }
      }
    }
    for (const samplers::TaskResult& result : run_tasks(runner, ctx, tasks)) {
      slots.erase(machine->apply(result).value());
    }
  }
  return found;
}

/// Every segment but the first reads a boundary in each call: as many bytes as
/// the network's description says, for both branches of guidance. Skips of an
/// onion stay at home.
TEST(Crossings, AreWhatTheFormulaSaysOnEachEdgeInEachCall) {
  const auto description = small_uvit();
  const models::DenoiserInfo info =
      description->info(description->latent_shape(), DType::f32);
  ExecContext ctx(1);
  models::RandomWeights weights(ctx, 11);
  const auto network = description->load(ctx, DType::f32, weights, {},
                                         models::WeightPlacement::resident);
  constexpr int kCalls = 9;
  const Schedule schedule(schedule_options_of(Solver::ddim, kCalls));
  for (const MethodKind kind : {MethodKind::pipeline, MethodKind::stale}) {
    for (const auto cut :
         {samplers::CutShape::chain, samplers::CutShape::onion}) {
      for (const int parts : {2, 3}) {
        SCOPED_TRACE(std::string(kind->name) + ", " + std::to_string(parts) +
                     (cut == samplers::CutShape::onion ? ", onion" : ""));
        const MethodOptions method{
            .kind = kind, .num_segments = parts, .cut = cut};
        const std::vector<int> cuts = balanced_cuts(info, method);
        const CutBytes formula = bytes_of_cuts(info, cuts, cut);
        const Crossings found = crossings_of(*network, schedule, method, cuts);
        const bool is_onion = cut == samplers::CutShape::onion;
        std::uint64_t all = 0;
        for (const auto& [edge, bytes] : found.boundaries) {
          EXPECT_EQ(bytes,
                    2 * formula.sent.at(static_cast<std::size_t>(edge.first)))
              << "segment " << edge.first << ", call " << edge.second;
          all += bytes;
        }
        EXPECT_GE(found.boundaries.size(), static_cast<std::size_t>(kCalls));
        if (kind == MethodKind::pipeline) {
          EXPECT_EQ(all, 2 * kCalls * formula.crossing);
        }
        EXPECT_EQ(found.skips, 0U);
        EXPECT_EQ(found.skips_at_home > 0, is_onion);
        // The last part of a chain sends what the network says to the first.
        EXPECT_EQ(found.outputs,
                  is_onion ? 0U
                           : kCalls *
                                 static_cast<std::uint64_t>(
                                     info.latent_shape.num_elements()) *
                                 sizeof(float));
        // In a chain skips cross with the boundary.
        EXPECT_EQ(is_onion, formula.sent.at(0) == info.hidden_bytes(cuts[1]));
      }
    }
  }
}

}  // namespace
}  // namespace troupe::actors

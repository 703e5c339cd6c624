#include <gtest/gtest.h>

#include <map>
#include <set>

#include "actors/cli/execution_class.h"
#include "actors/cli/forecast.h"
#include "actors/cli/image_recipe.h"
#include "actors/cli/job_runner.h"
#include "config/load_config.h"
#include "config/method_plan.h"
#include "kernels/core/error.h"
#include "samplers/parallel/plan.h"

// A method is one row: here is one more, and no other file knows it.

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;
using samplers::MethodRow;
using samplers::Op;

/// The network on one worker and the solver steps on another: in parts of
/// their own if the stride is 2, else both at home.
samplers::TaskList plan_apart(const MethodOptions& options, int num_calls) {
  samplers::TaskList list;
  samplers::Slot state = samplers::kInitialSlot;
  for (int call = 0; call < num_calls; ++call) {
    const samplers::Slot output = list.add({.op = Op::evaluate,
                                            .part = options.stride - 1,
                                            .from = call,
                                            .to = call + 1,
                                            .timestep_call = call,
                                            .inputs = {state}});
    state = list.add({.op = Op::step,
                      .from = call,
                      .to = call + 1,
                      .timestep_call = call,
                      .inputs = {state, output}});
    list.accept(state, call + 1);
  }
  return list;
}

constinit const MethodRow kApart{
    .name = "apart",
    .options = "stride",
    .plan = plan_apart,
    .approximates = [](const MethodOptions& o) { return o.stride == 2; },
    .parts = [](const MethodOptions& o) { return o.stride; },
    .useful_workers =
        [](const MethodOptions& o, std::uint64_t samples) {
          return samples * static_cast<std::uint64_t>(o.stride);
        },
    .in_flight =
        [](int num_parts, int) {
          return samplers::InFlight{2 * num_parts, num_parts};
        }};

std::vector<MethodKind> longer_table() {
  const samplers::MethodTable ours = samplers::method_table();
  std::vector<MethodKind> table(ours.begin(), ours.end());
  table.emplace_back(kApart);
  return table;
}

config::Config tiny_job() {
  config::Config config;
  config.random_weights = "dit-tiny";
  config.classes = {"1", "2", "0"};
  config.samples = {0, 3};
  config.compute = config::ComputeType::f32;
  config.sampler.steps = 4;
  config.num_workers = 2;
  config.num_threads = 1;
  return config;
}

config::Config apart_job() {
  config::Config config = tiny_job();
  config.method.kind =
      config::parse_method("--method", "apart", longer_table());
  config.method.stride = 2;
  return config;
}

class Latents final : public Observer {
 public:
  void on_sample(const SampleOutcome& outcome) override {
    const auto bytes = outcome.latents.bytes();
    rows[outcome.report.sample_index].assign(bytes.begin(), bytes.end());
  }
  void on_pass(const TracePass& pass) override { tasks += pass.span.rows; }
  std::map<std::uint64_t, std::vector<std::byte>> rows;
  int tasks = 0;
};

Latents run(const config::Config& config) {
  const JobRequest request = make_request(config);
  SignalWatch signals;
  StopFlag stop{signals};
  const JobRunner runner(request, stop);
  Latents seen;
  EXPECT_FALSE(runner.run({.observers = {&seen}, .trace = true}).failure);
  return seen;
}

TEST(MethodTable, HasADifferentNameAndEveryFunctionInEachRow) {
  std::set<std::string_view> names;
  for (const MethodKind kind : longer_table()) {
    EXPECT_TRUE(names.insert(kind->name).second) << kind->name;
    EXPECT_NE(kind->plan == nullptr, kind->make == nullptr) << kind->name;
    EXPECT_NE(kind->useful_workers, nullptr) << kind->name;
    EXPECT_NE(kind->in_flight, nullptr) << kind->name;
    if (kind->plan == nullptr) {
      EXPECT_NE(kind->turn, nullptr) << kind->name;
      EXPECT_NE(kind->most_tasks, nullptr) << kind->name;
      EXPECT_NE(kind->most_live, nullptr) << kind->name;
    }
    // Every word among its options is the key of one.
    std::size_t words = kind->options.empty() ? 0 : 1;
    words += static_cast<std::size_t>(std::ranges::count(kind->options, ' '));
    EXPECT_EQ(config::options_of(kind).size(), words) << kind->name;
  }
}

TEST(MethodTable, KnowsOneMoreMethodByItsRowAlone) {
  EXPECT_EQ(config::method_names(longer_table()).back(), "apart");
  try {
    (void)config::parse_method("--method", "apart");
    FAIL() << "the table without it knows it";
  } catch (const Error& error) {
    EXPECT_EQ(error.message().find("apart,"), std::string::npos);
  }
  EXPECT_EQ(config::parse_method("--method", "auto", longer_table()),
            std::nullopt);
}

TEST(MethodTable, RunsOneMoreMethod) {
  const Latents sequential = run(tiny_job());
  const Latents apart = run(apart_job());
  EXPECT_EQ(apart.rows.size(), 3U);
  EXPECT_EQ(apart.rows, sequential.rows);
  // Two per call, and the decode. What a worker says after the job's end, of a
  // task that another's result has shown to have run, is not seen any more.
  EXPECT_LE(apart.tasks, 3 * (2 * 4 + 1));
  EXPECT_GT(apart.tasks, 3 * (4 + 1));
}

TEST(MethodTable, PlansAndDescribesOneMoreMethod) {
  const JobRequest request = make_request(apart_job());
  const MethodOptions& method = request.job.method;
  EXPECT_EQ(method.kind, MethodKind(kApart));
  EXPECT_EQ(request.num_workers(), 2);
  EXPECT_EQ(samplers::num_parts(method), 2);
  EXPECT_EQ(samplers::num_segments(method), 1);
  EXPECT_EQ(logical_plan(method), "method=apart stride=2");
  const Workload work =
      workload_of({.samples = 3, .calls = 4, .workers = 2, .method = method});
  EXPECT_EQ(work.evaluations, 12);
  EXPECT_EQ(work.path, 12) << "one group of two workers";
  const std::string recipe = to_json(request.recipe_of(0));
  EXPECT_NE(recipe.find(R"("kind":"apart")"), std::string::npos) << recipe;
  EXPECT_NE(recipe.find(R"("stride":2)"), std::string::npos) << recipe;
}

TEST(MethodTable, RefusesOptionsOfOthersBesideOneMoreMethod) {
  config::Config config = apart_job();
  config.method.window_size = 3;
  try {
    (void)make_request(config);
    FAIL() << "took a window";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    EXPECT_EQ(error.place(), "--window");
    EXPECT_NE(std::string(error.what()).find("--method picard"),
              std::string::npos)
        << error.what();
  }
}

TEST(MethodTable, TellsSnapshotsOfOneMoreMethodFromOthers) {
  samplers::ScheduleOptions steps;
  steps.num_inference_steps = 4;
  const samplers::Schedule schedule(steps);
  const auto apart = make_method({.kind = MethodKind(kApart)}, schedule);
  const auto sequential = make_method({}, schedule);
  (void)apart->ready(samplers::kNothingAhead);
  const std::string snapshot = apart->snapshot();
  EXPECT_NE(snapshot.find("apart"), std::string::npos);
  EXPECT_THROW(sequential->restore(snapshot), Error);
  apart->restore(snapshot);
  EXPECT_EQ(apart->ready(samplers::kNothingAhead).size(), 1U);

  // An older format of the same method.
  static const MethodRow newer = [] {
    MethodRow row = kApart;
    row.snapshot_format = 2;
    return row;
  }();
  const auto after = make_method({.kind = MethodKind(newer)}, schedule);
  EXPECT_THROW(after->restore(snapshot), Error);
}

}  // namespace
}  // namespace troupe::actors

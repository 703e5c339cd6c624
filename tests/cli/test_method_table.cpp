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
#include "samplers/parallel/call_by_call.h"

// A method is one row: here is one more, and no other file knows it.

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;
using samplers::MethodRow;
using samplers::Op;
using samplers::Task;

extern const MethodRow kApart;

constexpr samplers::CallParts kCall{.tasks = 2, .outputs = 1};

/// The network on one worker and the solver steps on another: in parts of
/// their own if the stride is 2, else both at home.
class Apart final : public samplers::CallByCall {
 public:
  Apart(int num_calls, int part)
      : CallByCall(MethodKind(kApart), num_calls, kCall), part_(part) {}

 private:
  samplers::Slot add_call(const Task& call, samplers::Slot state) override {
    Task network = call;
    network.op = Op::evaluate;
    network.part = part_;
    network.inputs = {state};
    Task step = call;
    step.op = Op::step;
    step.inputs = {state, add(std::move(network))};
    return add(std::move(step));
  }

  int part_;
};

constinit const MethodRow kApart{
    .name = "apart",
    .options = "stride",
    .make = [](const MethodOptions& o, const samplers::Schedule& schedule)
        -> std::unique_ptr<samplers::Method> {
      return std::make_unique<Apart>(schedule.num_model_calls(), o.stride - 1);
    },
    .approximates = [](const MethodOptions& o) { return o.stride == 2; },
    .parts = [](const MethodOptions& o) { return o.stride; },
    .useful_workers =
        [](const MethodOptions& o, std::uint64_t samples) {
          return samples * static_cast<std::uint64_t>(o.stride);
        },
    .in_flight =
        [](int num_parts, int) {
          return samplers::InFlight{2 * num_parts, num_parts};
        },
    .turn =
        [](const MethodOptions&, const samplers::TurnShape& shape) {
          const double calls = shape.num_calls;
          return samplers::Turn{calls, calls, calls};
        },
    .most_tasks = [](const MethodOptions&, int calls) { return 2.0 * calls; },
    .most_live =
        [](const MethodOptions&, int calls, int max_open) {
          return samplers::most_live_of(kCall, calls, max_open);
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
    EXPECT_NE(kind->make, nullptr) << kind->name;
    EXPECT_NE(kind->useful_workers, nullptr) << kind->name;
    EXPECT_NE(kind->in_flight, nullptr) << kind->name;
    EXPECT_NE(kind->turn, nullptr) << kind->name;
    EXPECT_NE(kind->most_tasks, nullptr) << kind->name;
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
  class Newer final : public samplers::CallByCall {
   public:
    explicit Newer(int calls) : CallByCall(MethodKind(newer), calls, kCall) {}
    samplers::Slot add_call(const Task&, samplers::Slot state) override {
      return state;
    }
  };
  EXPECT_THROW(Newer(4).restore(snapshot), Error);
}

}  // namespace
}  // namespace troupe::actors

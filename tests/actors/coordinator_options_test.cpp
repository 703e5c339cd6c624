// The options of a coordinator follow from the job's record alone, in every
// process: so another process can start the coordinator again.

#include <gtest/gtest.h>

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/job_parts.h"
#include "actors/runtime.h"
#include "actors/wire/codec.h"
#include "models/files/weight_source.h"
#include "tests/actors/job_support.h"
#include "tests/actors/random_records.h"

namespace troupe::actors {
namespace {

using samplers::Method;
using samplers::MethodKind;
using samplers::MethodOptions;
using samplers::Task;

std::vector<MethodOptions> one_of_each() {
  return {{.kind = MethodKind::sequential},
          {.kind = MethodKind::batch},
          {.kind = MethodKind::cfg},
          {.kind = MethodKind::picard, .window_size = 3, .tolerance = 0.01},
          {.kind = MethodKind::pipeline, .num_segments = 2},
          {.kind = MethodKind::stale, .num_segments = 2, .stride = 2}};
}

/// As a process makes them that has the record, the values that it names and
/// the model.
CoordinatorOptions options_of(const JobRecord& job, const LoadedModel& model) {
  JobSpec spec;
  spec.parts = make_parts(job, small_values(), {{Device{}, model}});
  spec.begin = job.begin;
  spec.end = job.end;
  spec.workers = cpu_workers(2);
  return coordinator_options(spec);
}

auto fields_of(const Task& task) {
  return std::tuple(task.id, task.version, task.op, task.branch, task.segment,
                    task.part, task.from, task.to, task.timestep_call,
                    task.inputs, task.outputs);
}

/// Both hand out the same tasks, and are in the same state after each result.
void expect_same(Method& one, Method& other) {
  constexpr int kMostOpen = 8;
  std::size_t num_tasks = 0;
  while (!one.done()) {
    const std::vector<Task> tasks = one.ready(kMostOpen);
    const std::vector<Task> others = other.ready(kMostOpen);
    ASSERT_FALSE(tasks.empty());
    ASSERT_EQ(tasks.size(), others.size());
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      ASSERT_EQ(fields_of(tasks[i]), fields_of(others[i]));
      // Residuals that are accepted at some points, and not at others.
      const samplers::TaskResult result{
          tasks[i].id, tasks[i].version,
          std::vector<double>(samplers::num_scalars(tasks[i]),
                              num_tasks % 3 == 0 ? 1.0 : 0.0)};
      ASSERT_EQ(one.apply(result), other.apply(result));
      ASSERT_EQ(one.snapshot(), other.snapshot());
      ++num_tasks;
    }
  }
  EXPECT_TRUE(other.done());
  EXPECT_GE(num_tasks, 5U);
}

TEST(CoordinatorOptions, AreThoseOfTheRunWhoseRecordTravelled) {
  ExecContext ctx;
  models::RandomWeights weights(ctx, 3);
  samplers::ScheduleOptions schedule;
  schedule.num_inference_steps = 5;
  for (const MethodOptions& method : one_of_each()) {
    JobRecord job = small_job(schedule, method);
    job.begin = 1;
    LoadedModel model;
    model.denoiser =
        describe(job.model).denoiser->load(ctx, DType::f32, weights);
    model.weights_hash = job.model.weights_xxh3;
    const std::string bytes = wire::encode(job);
    const CoordinatorOptions first = options_of(job, model);
    const CoordinatorOptions again =
        options_of(wire::read_job(std::as_bytes(std::span(bytes))), model);
    EXPECT_EQ(first.samples, (std::vector<std::uint64_t>{1, 2}));
    EXPECT_EQ(again.samples, first.samples);
    EXPECT_GT(first.ticks_per_call, 0U);
    EXPECT_EQ(again.ticks_per_call, first.ticks_per_call);
    // Every field of the method's options.
    JobRecord of_first;
    of_first.method = first.method;
    JobRecord of_again;
    of_again.method = again.method;
    EXPECT_EQ(hash_of(of_again), hash_of(of_first));
    expect_same(*first.make_method(), *again.make_method());
  }
}

}  // namespace
}  // namespace troupe::actors

// Emulated jobs whose times can be said in closed form. That their values are
// those of other companies: TROUPE_TEST_COMPANY=emulated.

#include <gtest/gtest.h>

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/emulation/emulate.h"
#include "tests/actors/job_support.h"
#include "tests/actors/observed_job.h"
#include "tests/actors/toy_evaluator.h"

namespace troupe::actors::emulation {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;

constexpr int kSteps = 10;

/// Control and links take no time.
Machine free_machine(int devices) {
  Machine machine;
  machine.speeds.assign(static_cast<std::size_t>(devices), 1.0);
  machine.coordinator_event = {};
  machine.link_us = 0;
  machine.link_gbps = 1e6;
  return machine;
}

struct ToyJob {
  explicit ToyJob(const MethodOptions& options, std::uint64_t samples)
      : evaluator(samplers::num_segments(options)) {
    spec.parts = {unowned(schedule), options, unowned(evaluator),
                  unowned(noise)};
    spec.end = samples;
    spec.decode = false;
  }

  EmulatedJob on(const Machine& machine) {
    spec.workers = cpu_workers(static_cast<int>(machine.num_workers()));
    EmulatedJob job = emulate(spec, machine, 1);
    EXPECT_FALSE(job.result.failure);
    EXPECT_EQ(job.result.count(SampleStatus::done), spec.end);
    return job;
  }

  const samplers::Schedule schedule{ddim_steps(kSteps)};
  ToyEvaluator evaluator;
  samplers::PhiloxNoise noise{5};
  JobSpec spec;
};

double seconds_on(const MethodOptions& method, std::uint64_t samples,
                  const Machine& machine) {
  return ToyJob(method, samples).on(machine).result.wall_seconds;
}

TEST(Emulation, SharesABatchEvenly) {
  const EmulatedJob job =
      ToyJob({.kind = MethodKind::batch}, 16).on(free_machine(8));
  EXPECT_DOUBLE_EQ(job.result.wall_seconds, 2 * kSteps * 0.040);
  EXPECT_DOUBLE_EQ(job.result.compute_seconds, 16 * kSteps * 0.040);
  EXPECT_NEAR(job.bounds.work, 2 * kSteps * 0.040, 1e-9);
  EXPECT_DOUBLE_EQ(job.bounds.critical_path, kSteps * 0.040);
  EXPECT_DOUBLE_EQ(job.bounds.list_schedule, 2 * kSteps * 0.040);
  EXPECT_EQ(job.result.nfe, 16 * kSteps);
}

TEST(Emulation, CountsBothBranchesOfGuidanceAsRows) {
  Machine machine = free_machine(1);
  machine.is_guided = true;
  machine.row_slope = 0.5;
  EXPECT_DOUBLE_EQ(seconds_on({.kind = MethodKind::sequential}, 1, machine),
                   kSteps * 0.060);
}

/// A network of four blocks; a row that has a cache runs the first one alone.
class FourBlocks final : public samplers::Evaluator {
 public:
  [[nodiscard]] Shape latent_shape() const override { return {3, 4, 4}; }
  [[nodiscard]] std::int64_t out_channels() const override { return 3; }
  [[nodiscard]] int num_segments() const override { return 1; }
  [[nodiscard]] std::uint64_t ticks_per_row() const override { return 4; }
  void evaluate(ExecContext& ctx,
                std::span<samplers::EvaluateRow> rows) override {
    for (samplers::EvaluateRow& row : rows) {
      row.output = row.latents.clone();
      ctx.tick(4);
    }
  }
  void evaluate_cached(ExecContext& ctx,
                       std::span<samplers::CachedRow> rows) override {
    for (samplers::CachedRow& row : rows) {
      row.output = row.latents.clone();
      row.is_reused = !row.cache.empty();
      ctx.tick(row.is_reused ? 1 : 4);
      row.cache = {{"rest", row.latents.clone()}};
    }
  }
  void combine(ExecContext& /*ctx*/, double /*timestep*/,
               const Tensor& /*cond*/, const Tensor& /*uncond*/,
               Tensor& /*out*/) override {}
  void run_segment(ExecContext& /*ctx*/, int /*segment*/,
                   std::span<samplers::SegmentRow> /*rows*/) override {}
  void decode(ExecContext& /*ctx*/, const Tensor& latents,
              Tensor& pixels) override {
    pixels = latents.clone();
  }
};

// The first call and the last one run all blocks.
TEST(Emulation, CountsTheBlocksThatACallRan) {
  FourBlocks network;
  ToyJob toy({.kind = MethodKind::sequential.with(samplers::Modifier::cache)},
             1);
  toy.spec.parts.evaluator = unowned(network);
  const EmulatedJob job = toy.on(free_machine(1));
  EXPECT_EQ(job.result.nfe, kSteps);
  EXPECT_EQ(job.result.reused, kSteps - 2);
  const double seconds = 2 * 0.040 + (kSteps - 2) * 0.010;
  EXPECT_DOUBLE_EQ(job.result.wall_seconds, seconds);
  EXPECT_DOUBLE_EQ(job.bounds.critical_path, seconds);
  EXPECT_DOUBLE_EQ(job.bounds.list_schedule, seconds);
}

TEST(Emulation, TakesSegmentsAsShares) {
  Machine machine = free_machine(1);
  machine.segment_shares = {0.75, 0.25};
  const MethodOptions pipeline{.kind = MethodKind::pipeline, .num_segments = 2};
  EXPECT_DOUBLE_EQ(seconds_on(pipeline, 1, machine), kSteps * 0.040);
  // Two samples, the second behind the first: the larger share is busy all the
  // time, and the other ends.
  machine.speeds = {1.0, 1.0};
  EXPECT_DOUBLE_EQ(seconds_on(pipeline, 2, machine),
                   2 * kSteps * 0.030 + 0.010);
}

/// Grants lie at the workers before they can start: between two calls only
/// values travel, one way each.
TEST(Emulation, PaysOneWayOfALinkForAnInput) {
  Machine machine = free_machine(2);
  machine.link_us = 1000;
  const EmulatedJob job = ToyJob({.kind = MethodKind::cfg}, 1).on(machine);
  // The second worker reports, and gets its grant.
  const double start = 0.002;
  // An output comes to the first worker, the next state goes back.
  const double calls = kSteps * 0.041 + (kSteps - 1) * 0.001;
  EXPECT_DOUBLE_EQ(job.result.wall_seconds, start + calls);
  EXPECT_DOUBLE_EQ(job.bounds.critical_path, calls);
  EXPECT_GT(job.bytes_sent, 0U);
}

TEST(Emulation, ChargesTheCoordinatorWhereItIsWaitedFor) {
  Machine machine = free_machine(1);
  machine.coordinator_event = std::chrono::milliseconds(1);
  // The first event and the last; those between are hidden.
  EXPECT_DOUBLE_EQ(seconds_on({.kind = MethodKind::sequential}, 1, machine),
                   kSteps * 0.040 + 0.002);
}

TEST(Emulation, UsesUnequalDevicesByTheirSpeed) {
  Machine machine = free_machine(2);
  machine.speeds = {1.0, 3.0};
  const EmulatedJob job = ToyJob({.kind = MethodKind::batch}, 16).on(machine);
  EXPECT_NEAR(job.bounds.work, 16 * kSteps * 0.040 / 4, 1e-9);
  EXPECT_LT(job.result.wall_seconds, 1.1 * job.bounds.work);
}

TEST(Emulation, LetsALoneWorkerGoFaster) {
  Machine machine = free_machine(2);
  machine.solo_speed = 1.25;
  EXPECT_DOUBLE_EQ(machine.pace(1), 1.25);
  EXPECT_DOUBLE_EQ(machine.pace(2), 1);
  const MethodOptions batch{.kind = MethodKind::batch};
  EXPECT_DOUBLE_EQ(seconds_on(batch, 1, machine), kSteps * 0.032);
  EXPECT_DOUBLE_EQ(seconds_on(batch, 2, machine), kSteps * 0.040);
  // The third sample is alone; so is the last part of the second's last pass.
  EXPECT_DOUBLE_EQ(seconds_on(batch, 3, machine), kSteps * (0.040 + 0.032));
  EXPECT_DOUBLE_EQ(free_machine(1).pace(1), 1);
  // As four workers on two cores.
  Machine four = free_machine(4);
  four.solo_speed = 1.9;
  EXPECT_DOUBLE_EQ(four.pace(1), 1.9);
  EXPECT_DOUBLE_EQ(four.pace(2), 1.9);
  EXPECT_DOUBLE_EQ(four.pace(3), 4. / 3);
  EXPECT_DOUBLE_EQ(four.pace(4), 1);
}

TEST(Emulation, LetsTheFirstPassOfAWorkerTakeLonger) {
  Machine machine = free_machine(2);
  machine.first_ms = 15;
  EXPECT_DOUBLE_EQ(seconds_on({.kind = MethodKind::batch}, 2, machine),
                   kSteps * 0.040 + 0.015);
  EXPECT_DOUBLE_EQ(seconds_on({.kind = MethodKind::batch}, 4, machine),
                   2 * kSteps * 0.040 + 0.015);
}

TEST(Emulation, LeavesValuesWhereTheyAreInOneMemory) {
  Machine machine = free_machine(2);
  machine.link_gbps = 1e-6;
  machine.shares_memory = true;
  const MethodOptions cfg{.kind = MethodKind::cfg};
  const EmulatedJob job = ToyJob(cfg, 1).on(machine);
  EXPECT_DOUBLE_EQ(job.result.wall_seconds, kSteps * 0.040);
  EXPECT_EQ(job.bytes_sent, 0U);
  // A worker is up, gets a grant, and answers.
  machine.link_us = 1000;
  EXPECT_DOUBLE_EQ(seconds_on({.kind = MethodKind::batch}, 1, machine),
                   kSteps * 0.040 + 0.003);
}

TEST(Emulation, HasTheSameBytesInOneMemory) {
  for (const MethodOptions& method : every_method()) {
    const auto latents_on = [&method](bool shares_memory) {
      ObservedJob job(method);
      job.spec.workers = cpu_workers(2);
      Machine machine = free_machine(2);
      machine.link_us = 100;
      machine.shares_memory = shares_memory;
      machine.solo_speed = 1.2;
      machine.segment_shares.assign(
          static_cast<std::size_t>(samplers::num_segments(method)), 0.5);
      (void)emulate(job.spec, machine, 1);
      return std::move(job.seen.latents);
    };
    expect_same(latents_on(true), latents_on(false),
                std::string(method.kind->name));
  }
}

TEST(Emulation, DrawsSlownessFromWhatWasSeen) {
  const MethodOptions batch{.kind = MethodKind::batch};
  Machine machine = free_machine(1);
  machine.slowness = {1.5};
  EXPECT_DOUBLE_EQ(seconds_on(batch, 1, machine), kSteps * 0.060);
  machine.slowness = {0.5, 1.5};
  const double once = seconds_on(batch, 4, machine);
  EXPECT_EQ(seconds_on(batch, 4, machine), once);
  EXPECT_GT(once, 4 * kSteps * 0.020);
  EXPECT_LT(once, 4 * kSteps * 0.060);
  machine.seed = 1;
  EXPECT_NE(seconds_on(batch, 4, machine), once);
}

TEST(Emulation, DrawsJitterFromItsSeed) {
  const MethodOptions batch{.kind = MethodKind::batch};
  Machine machine = free_machine(3);
  const double even = seconds_on(batch, 12, machine);
  machine.jitter = 0.5;
  const double once = seconds_on(batch, 12, machine);
  EXPECT_EQ(seconds_on(batch, 12, machine), once);
  EXPECT_GT(once, even);
  EXPECT_LT(once, 1.5 * even);
  machine.seed = 1;
  EXPECT_NE(seconds_on(batch, 12, machine), once);
}

TEST(Emulation, ShowsPassesInTheMachinesTime) {
  struct Spans final : Observer {
    void on_pass(const TracePass& pass) override {
      if (pass.span.op->joins()) {
        all.push_back(pass.span);
      }
    }
    std::vector<TraceSpan> all;
  } spans;
  ToyJob job({.kind = MethodKind::batch}, 2);
  job.spec.observers = {&spans};
  (void)job.on(free_machine(2));
  EXPECT_TRUE(spans.all.empty());
  job.spec.trace = true;
  (void)job.on(free_machine(2));
  ASSERT_EQ(spans.all.size(), 2U * kSteps);
  for (const TraceSpan& span : spans.all) {
    EXPECT_DOUBLE_EQ(to_seconds(span.duration), 0.040);
    EXPECT_DOUBLE_EQ(to_seconds(span.start - TimePoint{}), span.step * 0.040);
  }
}

TEST(Emulation, RunsAThousandDevices) {
  const EmulatedJob job =
      ToyJob({.kind = MethodKind::batch}, 1024)
          .on(Machine{.speeds = std::vector<double>(1024, 1.0)});
  EXPECT_LT(job.result.wall_seconds, 1.05 * kSteps * 0.040);
}

TEST(Emulation, EndsASampleThatIsNotFinite) {
  ToyJob job({.kind = MethodKind::batch}, 6);
  job.evaluator.nan_sample = 2;
  job.spec.workers = cpu_workers(2);
  const JobResult result = emulate(job.spec, free_machine(2), 1).result;
  EXPECT_FALSE(result.failure);
  EXPECT_EQ(result.count(SampleStatus::done), 5U);
  EXPECT_EQ(result.samples.at(2).status, SampleStatus::failed);
}

TEST(Emulation, StopsWhenItIsAsked) {
  ToyJob job({.kind = MethodKind::batch}, 6);
  std::stop_source stop;
  int forwards = 0;
  job.evaluator.before_forward = [&](ExecContext&) {
    if (++forwards == 7) {
      stop.request_stop();
    }
  };
  job.spec.stop = stop.get_token();
  job.spec.workers = cpu_workers(2);
  const JobResult result = emulate(job.spec, free_machine(2), 1).result;
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.count(SampleStatus::unfinished), 6U);
  EXPECT_EQ(forwards, 7);
}

TEST(Emulation, RefusesAMachineWithoutPlaceForAWorker) {
  ToyJob job({.kind = MethodKind::batch}, 1);
  job.spec.workers = cpu_workers(3);
  EXPECT_THROW((void)emulate(job.spec, free_machine(2), 1), Error);
}

}  // namespace
}  // namespace troupe::actors::emulation

// Whole jobs on emulated GPUs: one GPU and two GPUs give the same bytes, also
// when a GPU fails.

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "actors/runtime.h"
#include "kernels/copy.h"
#include "kernels/core/pixel_bytes.h"
#include "kernels/core/shard_context.h"
#include "tests/actors/job_support.h"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/emulator/faults.h"
#include "tests/cuda/scaling_evaluator.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;

constexpr Device kFirst{DeviceKind::cuda, 0};
constexpr Device kSecond{DeviceKind::cuda, 1};

class Results final : public Observer {
 public:
  void on_sample(const SampleOutcome& outcome) override {
    if (outcome.report.status == SampleStatus::done) {
      latents[outcome.report.sample_index] = outcome.latents;
      pixels[outcome.report.sample_index] = outcome.pixels;
    }
  }
  void on_preview(const Preview& preview) override {
    EXPECT_EQ(preview.latents.device(), Device{});
    ++previews;
  }
  void on_point(const TrajectoryPoint& point) override {
    EXPECT_EQ(point.latents.device(), Device{});
    ++points;
  }
  void on_pass(const TracePass& pass) override { passes.push_back(pass); }
  std::vector<TracePass> passes;
  std::map<std::uint64_t, Tensor> latents;
  std::map<std::uint64_t, Tensor> pixels;
  int previews = 0;
  int points = 0;
};

samplers::ScheduleOptions six_steps() {
  samplers::ScheduleOptions options;
  options.num_inference_steps = 6;
  return options;
}

struct Job {
  explicit Job(const MethodOptions& method)
      : network(method.kind == MethodKind::pipeline ||
                        method.kind == MethodKind::stale
                    ? method.num_segments
                    : 2) {
    spec.parts.schedule = unowned(schedule);
    spec.parts.method = method;
    spec.parts.evaluator = unowned(network);
    spec.parts.noise = unowned(noise);
    spec.end = 6;
    spec.observers = {&seen};
    spec.workers.clear();
  }
  void add(Device device, int execution_class = 0, int rows = 2) {
    spec.workers.push_back({.execution_class = execution_class,
                            .device = device,
                            .max_rows = rows});
  }

  samplers::Schedule schedule{six_steps()};
  Scaling network;
  samplers::PhiloxNoise noise{11};
  Results seen;
  JobSpec spec;
};

/// Emulated machines of two GPUs.
class EmulatedCompany : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    emulator::Config config = emulator::default_config();
    config.devices = 2;
    config.peer_access = GetParam() % 2 == 0;
    config.seed = static_cast<std::uint64_t>(GetParam()) + 1;
    emulator::configure(config);
  }
  void TearDown() override { emulator::configure(emulator::default_config()); }

  static std::vector<MethodOptions> methods() {
    return {{.kind = MethodKind::sequential},
            {.kind = MethodKind::batch},
            {.kind = MethodKind::cfg},
            {.kind = MethodKind::picard, .window_size = 3},
            {.kind = MethodKind::pipeline, .num_segments = 2},
            {.kind = MethodKind::stale, .num_segments = 2, .age = 1}};
  }
  static std::map<std::uint64_t, Tensor> on_the_cpu(
      const MethodOptions& method) {
    Job job(method);
    job.add({});
    EXPECT_FALSE(run_job(job.spec).failure);
    return job.seen.latents;
  }
  static void expect_bytes(const MethodOptions& method, const Job& job) {
    const auto expected = on_the_cpu(method);
    ASSERT_EQ(job.seen.latents.size(), expected.size());
    for (const auto& [index, latents] : expected) {
      EXPECT_TRUE(bytes_equal(latents, job.seen.latents.at(index)))
          << "sample " << index << ", method " << method.kind->name;
      EXPECT_TRUE(bytes_equal(pixel_bytes(latents), job.seen.pixels.at(index)));
    }
  }
};

TEST_P(EmulatedCompany, GivesTheSameBytesOnOneAndOnTwo) {
  for (const MethodOptions& method : methods()) {
    for (const int gpus : {1, 2}) {
      Job job(method);
      job.add(kFirst);
      if (gpus == 2) {
        job.add(kSecond);
      }
      const JobResult result = run_job(job.spec);
      ASSERT_FALSE(result.failure)
          << result.failure->place << ": " << result.failure->message;
      expect_bytes(method, job);
    }
  }
  EXPECT_EQ(emulator::bytes_in_use(0), 0U);
  EXPECT_EQ(emulator::bytes_in_use(1), 0U);
}

TEST_P(EmulatedCompany, IsTracedWithTheValuesThatMovedBetweenGpus) {
  for (const MethodOptions& method : methods()) {
    SCOPED_TRACE(std::string(method.kind->name));
    Job job(method);
    job.add(kFirst);
    job.add(kSecond);
    job.spec.trace = true;
    ASSERT_FALSE(run_job(job.spec).failure);
    expect_bytes(method, job);
    std::map<ValueName, TraceSpan> makers;
    for (const TracePass& pass : job.seen.passes) {
      EXPECT_EQ(pass.span.device, pass.span.worker == 0 ? kFirst : kSecond);
      for (const ValueName& name : pass.made) {
        makers.emplace(name, pass.span);
      }
    }
    int moved = 0;
    for (const TracePass& pass : job.seen.passes) {
      for (const ReadValue& read : pass.reads) {
        const auto maker = makers.find(read.name);
        if (maker != makers.end() && maker->second.device != pass.span.device) {
          ++moved;
          EXPECT_LE(maker->second.start + maker->second.duration,
                    pass.span.start);
          EXPECT_GT(read.bytes, 0U);
        }
      }
    }
    if (method.kind == MethodKind::pipeline ||
        method.kind == MethodKind::stale) {
      EXPECT_GE(moved, 6) << "a boundary for each call";
    }
  }
}

TEST_P(EmulatedCompany, GivesTheSameBytesBesideTheCpu) {
  for (const MethodOptions& method : methods()) {
    Job job(method);
    job.add(kFirst);
    job.add(kFirst);
    job.add({}, 1);
    job.spec.preview_every = 2;
    job.spec.trajectory = true;
    const JobResult result = run_job(job.spec);
    ASSERT_FALSE(result.failure) << result.failure->message;
    expect_bytes(method, job);
    EXPECT_GT(job.seen.previews, 0);
    EXPECT_GT(job.seen.points, 0);
  }
}

TEST_P(EmulatedCompany, GoesOnWithoutAGpuThatIsLost) {
  for (const MethodOptions& method : methods()) {
    for (const Device rest : {kSecond, Device{}}) {
      SetUp();
      Job job(method);
      job.add(kFirst);
      job.add(rest, rest == Device{} ? 1 : 0);
      emulator::lose_device(0, 60 + static_cast<std::uint64_t>(GetParam()) * 7);
      const JobResult result = run_job(job.spec);
      ASSERT_FALSE(result.failure)
          << result.failure->place << ": " << result.failure->message;
      ASSERT_LE(result.lost.size(), 1U);
      for (const LostDevice& lost : result.lost) {
        EXPECT_EQ(lost.device, kFirst);
        EXPECT_EQ(lost.cause.code, Errc::device_lost);
        EXPECT_EQ(lost.cause.place, "cuda:0");
        EXPECT_GE(result.recoveries, 1);
      }
      expect_bytes(method, job);
    }
  }
}

/// A network whose ranks meet in each pass.
class Exchanging final : public Scaling {
 public:
  Exchanging() : Scaling(2) {}
  void evaluate(ExecContext& ctx,
                std::span<samplers::EvaluateRow> rows) override {
    with_ranks(ctx, [](ExecContext& on, ShardContext& shard) {
      const std::int64_t ranks = shard.world_size();
      const Tensor all = shard.share({ranks, 8}, DType::f32, [&](int rank) {
        return SharedBlocks{.written = {{{rank, rank + 1}, {0, 8}}},
                            .read = {{{0, ranks}, {0, 8}}}};
      });
      Tensor mine = all.slice(shard.rank(), shard.rank() + 1);
      kernels::copy(on, Tensor::zeros({1, 8}, DType::f32), mine);
      shard.meet();
    });
    Scaling::evaluate(ctx, rows);
  }
};

TEST_P(EmulatedCompany, LosesAWorkerWithItsLead) {
  emulator::Config config = emulator::config();
  config.devices = 4;
  emulator::configure(config);
  const MethodOptions method = {.kind = MethodKind::batch};
  Job job(method);
  Exchanging network;
  job.spec.parts.evaluator = unowned(network);
  for (const int first : {0, 2}) {
    job.add({DeviceKind::cuda, first});
    job.spec.workers.back().others = {{DeviceKind::cuda, first + 1}};
  }
  emulator::lose_device(0, 5 + static_cast<std::uint64_t>(GetParam()));
  const JobResult result = run_job(job.spec);
  ASSERT_FALSE(result.failure)
      << result.failure->place << ": " << result.failure->message;
  ASSERT_EQ(result.lost.size(), 1U);
  EXPECT_EQ(result.lost[0].device, kFirst);
  EXPECT_EQ(result.lost[0].cause.code, Errc::device_lost);
  EXPECT_EQ(result.lost[0].cause.place, "cuda:0");
  expect_bytes(method, job);
}

TEST_P(EmulatedCompany, KeepsAWorkerThatLosesAnotherOfItsGpus) {
  emulator::Config config = emulator::config();
  config.devices = 3;
  emulator::configure(config);
  for (const MethodOptions& method : methods()) {
    if (samplers::num_segments(method) > 1) {
      continue;  // Exchanging exchanges in whole passes alone
    }
    SCOPED_TRACE(std::string(method.kind->name));
    emulator::configure(config);
    Job job(method);
    Exchanging network;
    job.spec.parts.evaluator = unowned(network);
    job.add(kFirst);
    job.spec.workers.back().others = {kSecond, {DeviceKind::cuda, 2}};
    emulator::lose_device(1, 5 + static_cast<std::uint64_t>(GetParam()));
    testing::internal::CaptureStderr();
    const JobResult result = run_job(job.spec);
    const std::string log = testing::internal::GetCapturedStderr();
    ASSERT_FALSE(result.failure)
        << result.failure->place << ": " << result.failure->message;
    EXPECT_TRUE(result.lost.empty());
    EXPECT_EQ(result.recoveries, 0) << "no sample begins again";
    EXPECT_NE(log.find("cuda:1 is lost (cudaErrorLaunchFailure"),
              std::string::npos)
        << log;
    EXPECT_NE(log.find("its part is computed on cuda:0, cuda:2"),
              std::string::npos)
        << log;
    expect_bytes(method, job);
  }
}

TEST_P(EmulatedCompany, FailsWithTheCauseWhenItsOnlyGpuIsLost) {
  Job job({.kind = MethodKind::batch});
  job.add(kFirst);
  emulator::lose_device(0, 40);
  const JobResult result = run_job(job.spec);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->code, Errc::device_lost);
  EXPECT_EQ(result.failure->place, "cuda:0");
  EXPECT_NE(result.failure->message.find("cudaErrorLaunchFailure"),
            std::string::npos)
      << result.failure->message;
  EXPECT_EQ(exit_code(result.failure->code), 3);
}

TEST_P(EmulatedCompany, TakesFewerRowsWhereMemoryIsShort) {
  Job job({.kind = MethodKind::batch});
  job.add(kFirst, 0, 4);
  for (int i = 0; i < 2; ++i) {  // it asks once more
    emulator::fail_call("cudaMallocAsync", cudaErrorMemoryAllocation,
                        3 + GetParam());
  }
  const JobResult result = run_job(job.spec);
  ASSERT_FALSE(result.failure)
      << result.failure->place << ": " << result.failure->message;
  EXPECT_EQ(result.recoveries, 1);
  EXPECT_TRUE(result.lost.empty());
  expect_bytes({.kind = MethodKind::batch}, job);
}

INSTANTIATE_TEST_SUITE_P(Seeds, EmulatedCompany, testing::Range(0, 4));

}  // namespace
}  // namespace troupe::actors

// Jobs in which something fails: a worker, a sample, the network or an
// observer.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "kernels/core/error.h"
#include "tests/actors/observed_job.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;

/// Refuses its n-th job, once: a worker that dies.
class FailingExecutor final : public Executor {
 public:
  explicit FailingExecutor(int jobs) : left_(jobs) {}
  void post(Job job) override {
    require(left_-- > 0, Errc::internal, "test", "the worker ends here");
    inner_.post(std::move(job));
  }
  void post_when(Condition condition, Job job) override {
    inner_.post_when(std::move(condition), std::move(job));
  }

 private:
  int left_;
  ThreadExecutor inner_;
};

TEST(RunJob, CompletesWithTheSameBytesWhenWorkersDie) {
  for (const MethodOptions& method : every_method()) {
    ObservedJob undisturbed(method);
    undisturbed.spec.workers = cpu_workers(2);
    (void)undisturbed.run();
    ObservedJob job(method);
    job.spec.workers = cpu_workers(2);
    std::atomic<int> deaths{0};
    job.spec.make_executor = [&](int worker) -> std::unique_ptr<Executor> {
      if (worker == 1 && deaths < 2) {
        ++deaths;
        return std::make_unique<FailingExecutor>(3);
      }
      return std::make_unique<ThreadExecutor>();
    };
    const JobResult result = job.run();
    ASSERT_FALSE(result.failure) << result.failure->message;
    // All work of sequential is the first worker's.
    if (method.kind != MethodKind::sequential) {
      EXPECT_GE(result.recoveries, 1);
    }
    expect_same(undisturbed.seen.latents, job.seen.latents, "after a death");
  }
}

TEST(RunJob, GoesOnWhileThreadsOfFencedWorkersHang) {
  // As many as there are threads for actors: none of these may wait for them.
  constexpr int kHanging = 2;
  ObservedJob job({.kind = MethodKind::batch});
  job.spec.workers = cpu_workers(kHanging + 1);
  job.spec.lease = {.least = std::chrono::milliseconds(300)};
  job.spec.max_losses = 0;  // a busy machine takes leases too
  std::atomic<int> passes{0};
  std::atomic<bool> is_over{false};
  job.evaluator.before_forward = [&](ExecContext& /*ctx*/) {
    if (passes++ < kHanging) {
      while (!is_over) {
        std::this_thread::yield();
      }
    }
  };
  std::size_t ended = 0;
  job.seen.after_sample = [&] {
    is_over = ++ended == job.spec.end - job.spec.begin;
  };
  const JobResult result = job.run();
  ASSERT_FALSE(result.failure) << result.failure->message;
  EXPECT_EQ(result.count(SampleStatus::done), ended);
  EXPECT_GE(result.recoveries, kHanging);
}

TEST(RunJob, FailsWhenNoWorkerStaysAlive) {
  ObservedJob job({.kind = MethodKind::batch});
  job.spec.workers = cpu_workers(2);
  job.spec.make_executor = [](int) -> std::unique_ptr<Executor> {
    throw Error(Errc::out_of_memory, "test", "no thread to be had");
  };
  const JobResult result = job.run();
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->code, Errc::out_of_memory);
  EXPECT_EQ(result.count(SampleStatus::unfinished), 5U);
}

TEST(RunJob, FailsTheSampleThatTurnsNanAndNamesTheStep) {
  ObservedJob job({.kind = MethodKind::batch});
  job.spec.workers = cpu_workers(2);
  job.evaluator.nan_sample = 2;
  const JobResult result = job.run();
  EXPECT_FALSE(result.failure);
  EXPECT_EQ(result.count(SampleStatus::done), 4U);
  const SampleReport& bad = result.samples.at(2);
  ASSERT_EQ(bad.status, SampleStatus::failed);
  EXPECT_EQ(bad.failure->code, Errc::non_finite);
  EXPECT_NE(bad.failure->message.find("step"), std::string::npos)
      << bad.failure->message;
  expect_same({{1, sequential().at(1)}}, {{1, job.seen.latents.at(1)}},
              "beside a failure");
}

TEST(RunJob, FailsAStaleSampleThatTurnsNanAndFinishesTheOthers) {
  // Other workers hold tasks of the sample when it fails.
  ObservedJob job({.kind = MethodKind::stale, .num_segments = 3});
  job.spec.workers = cpu_workers(3);
  job.spec.end = 8;
  job.evaluator.nan_sample = 2;
  const JobResult result = job.run();
  EXPECT_FALSE(result.failure);
  EXPECT_EQ(result.count(SampleStatus::done), 7U);
  EXPECT_EQ(result.count(SampleStatus::failed), 1U);
}

TEST(RunJob, FailsWithTheCauseWhenTheNetworkThrows) {
  ObservedJob job({.kind = MethodKind::batch});
  job.evaluator.before_forward = [](ExecContext&) {
    throw Error(Errc::unsupported, "toy", "cannot do that");
  };
  const JobResult result = job.run();
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->code, Errc::unsupported);
  EXPECT_EQ(result.failure->message, "cannot do that");
}

TEST(RunJob, EndsWithTheErrorOfAnObserver) {
  ObservedJob job({.kind = MethodKind::batch});
  job.spec.end = 1000;
  job.seen.after_sample = [] { throw Error(Errc::io, "disk", "is full"); };
  const JobResult result = job.run();
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->code, Errc::io);
}

}  // namespace
}  // namespace troupe::actors

// Jobs whose observers hold what they are given.

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "tests/actors/company_suite.h"
#include "tests/actors/job_support.h"
#include "tests/actors/toy_evaluator.h"

namespace troupe::actors {
namespace {

constexpr std::size_t kFit = 4;

/// Holds receipts until `drain` takes them.
class SlowWriter final : public Observer {
 public:
  void on_sample(const SampleOutcome& outcome) override {
    EXPECT_NE(outcome.receipt, nullptr);
    const std::lock_guard lock(mutex_);
    held_.push_back(outcome.receipt);
    most_ = std::max(most_, held_.size());
    changed_.notify_all();
  }
  /// Waits until the credit is used up, then lets go of one after the other.
  void drain(std::size_t samples) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return held_.size() == kFit; });
    for (std::size_t i = 0; i < samples; ++i) {
      changed_.wait(lock, [this] { return !held_.empty(); });
      const std::shared_ptr<void> oldest = std::move(held_.front());
      held_.pop_front();
      lock.unlock();  // here it is let go of
      lock.lock();
    }
  }
  [[nodiscard]] std::size_t most() const { return most_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<void>> held_;
  std::size_t most_ = 0;
};

struct ToyJob {
  ToyJob() : schedule(ddim_steps(2)), evaluator(1) {
    spec.parts.schedule = unowned(schedule);
    spec.parts.method = {.kind = samplers::MethodKind::batch};
    spec.parts.evaluator = unowned(evaluator);
    spec.parts.noise = unowned(noise);
    spec.outcome_bytes = kWriterCredit / kFit;
    spec.workers = cpu_workers(1, 1, 1);
  }

  samplers::Schedule schedule;
  ToyEvaluator evaluator;
  samplers::PhiloxNoise noise{1};
  JobSpec spec;
};

TEST(SlowWriter, HoldsTheJobAtItsCredit) {
  constexpr std::size_t kSamples = 40;
  SlowWriter writer;
  ToyJob job;
  job.spec.end = kSamples;
  job.spec.observers = {&writer};
  job.spec.workers = cpu_workers(2, 1, 1);
  std::thread disk([&] { writer.drain(kSamples); });
  const JobResult result = run_in_suite(job.spec);
  disk.join();
  EXPECT_FALSE(result.failure);
  EXPECT_EQ(result.count(SampleStatus::done), kSamples);
  EXPECT_EQ(writer.most(), kFit);
}

TEST(SlowWriter, MayLetGoAfterTheJob) {
  ToyJob job;
  job.spec.end = kFit;
  class Keeper final : public Observer {
   public:
    void on_sample(const SampleOutcome& outcome) override {
      kept.push_back(outcome.receipt);
    }
    std::vector<std::shared_ptr<void>> kept;
  } keeper;
  job.spec.observers = {&keeper};
  const JobResult result = run_in_suite(job.spec);
  EXPECT_EQ(result.count(SampleStatus::done), kFit);
  EXPECT_EQ(keeper.kept.size(), kFit);
  keeper.kept.clear();
}

TEST(SlowWriter, AStopDoesNotWaitForCredit) {
  ToyJob job;
  job.spec.end = 1000;
  std::stop_source source;
  class Stopper final : public Observer {
   public:
    explicit Stopper(std::stop_source& stop) : stop_(stop) {}
    void on_sample(const SampleOutcome& outcome) override {
      kept.push_back(outcome.receipt);
      if (kept.size() == kFit) {
        stop_.request_stop();
      }
    }
    std::vector<std::shared_ptr<void>> kept;

   private:
    std::stop_source& stop_;
  } stopper(source);
  job.spec.observers = {&stopper};
  job.spec.stop = source.get_token();
  const JobResult result = run_in_suite(job.spec);
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.count(SampleStatus::done), kFit);
  EXPECT_EQ(result.samples.size(), 1000U);
}

}  // namespace
}  // namespace troupe::actors

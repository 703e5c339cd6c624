#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace troupe {

/// Port: where work runs. Jobs of one executor run one at a time, in the order
/// in which they were posted. A job must not throw.
class Executor {
 public:
  using Job = std::function<void()>;
  using Condition = std::function<bool()>;

  virtual ~Executor() = default;
  /// Thread: any.
  virtual void post(Job job) = 0;
  /// The job runs once the condition holds. The condition is asked where jobs
  /// run, between them, and must not throw. Jobs with a condition keep their
  /// own order; jobs without one go first, so a device's next work is queued
  /// before anyone waits for its last. Thread: any.
  virtual void post_when(Condition condition, Job job) = 0;
};

/// Runs jobs on a thread of its own, with OpenMP set to one thread. The thread
/// sleeps while there is no job. While only jobs with a condition are left, it
/// asks them without a pause: they wait for a device, which should not be idle.
/// The destructor drops jobs that have not begun and waits for the running one.
class ThreadExecutor final : public Executor {
 public:
  /// Errors: Errc::invalid_argument where the system refuses a thread.
  ThreadExecutor();
  ~ThreadExecutor() override;
  void post(Job job) override;
  void post_when(Condition condition, Job job) override;

 private:
  struct Waiting {
    Condition condition;
    Job job;
  };
  void run();
  /// The next job; an empty one when none can run yet; nothing at the end.
  [[nodiscard]] std::optional<Job> next();

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Job> jobs_;
  std::deque<Waiting> waiting_;
  bool stop_ = false;
  std::thread thread_;
};

/// Runs nothing by itself: a test decides when jobs run. Thread: one.
class ManualExecutor final : public Executor {
 public:
  void post(Job job) override { jobs_.push_back(std::move(job)); }
  void post_when(Condition condition, Job job) override {
    waiting_.emplace_back(std::move(condition), std::move(job));
  }
  [[nodiscard]] std::size_t pending() const noexcept {
    return jobs_.size() + waiting_.size();
  }
  /// Runs the oldest job; if there is none, the oldest job with a condition if
  /// that holds. Returns whether a job ran.
  bool run_one();
  /// Runs jobs, including newly posted jobs, until no job can run.
  void run_all();

 private:
  std::deque<Job> jobs_;
  std::deque<std::pair<Condition, Job>> waiting_;
};

}  // namespace troupe

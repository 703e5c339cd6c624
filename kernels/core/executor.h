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
/// of posting. A job must not throw.
class Executor {
 public:
  using Job = std::function<void()>;
  using Condition = std::function<bool()>;

  virtual ~Executor() = default;
  /// Thread: any.
  virtual void post(Job job) = 0;
  /// The job runs once the condition holds, which is asked, and must not throw,
  /// where jobs run. Jobs that wait do so in the order of posting; those
  /// without a condition go first. So a device's next work is queued before the
  /// former is waited for. Thread: any.
  virtual void post_when(Condition condition, Job job) = 0;
};

/// One thread of its own, with OpenMP set to one thread. It sleeps while there
/// is no job, and asks without a pause while only conditions are left: they
/// stand for a device at work, and its next idle moment is dear.
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
  /// The next job, or an empty one when none can run yet; nothing at the end.
  [[nodiscard]] std::optional<Job> next();

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Job> jobs_;
  std::deque<Waiting> waiting_;
  bool stop_ = false;
  std::thread thread_;
};

/// Runs nothing by itself: tests decide when, and in which order. Thread: one.
class ManualExecutor final : public Executor {
 public:
  void post(Job job) override { jobs_.push_back(std::move(job)); }
  void post_when(Condition condition, Job job) override {
    waiting_.emplace_back(std::move(condition), std::move(job));
  }
  [[nodiscard]] std::size_t pending() const noexcept {
    return jobs_.size() + waiting_.size();
  }
  /// Runs the oldest job, else the oldest that waits if it may run. Returns
  /// false when there was none.
  bool run_one();
  /// Runs jobs, including those they post, until none can run.
  void run_all();

 private:
  std::deque<Job> jobs_;
  std::deque<std::pair<Condition, Job>> waiting_;
};

}  // namespace troupe

#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace troupe {

/// Port: where work runs. Jobs of one executor run one at a time, in the order
/// of posting. A job must not throw.
class Executor {
 public:
  using Job = std::function<void()>;

  virtual ~Executor() = default;
  /// Thread: any.
  virtual void post(Job job) = 0;
};

/// One thread of its own, with OpenMP set to one thread.
/// The destructor drops jobs that have not begun and waits for the running one.
class ThreadExecutor final : public Executor {
 public:
  /// Errors: Errc::invalid_argument where the system refuses a thread.
  ThreadExecutor();
  ~ThreadExecutor() override;
  void post(Job job) override;

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Job> jobs_;
  bool stop_ = false;
  std::thread thread_;
};

/// Runs nothing by itself: tests decide when, and in which order. Thread: one.
class ManualExecutor final : public Executor {
 public:
  void post(Job job) override { jobs_.push_back(std::move(job)); }
  [[nodiscard]] std::size_t pending() const noexcept { return jobs_.size(); }
  /// Runs the oldest job. Returns false when there was none.
  bool run_one();
  /// Runs jobs, including those they post, until none is left.
  void run_all();

 private:
  std::deque<Job> jobs_;
};

}  // namespace troupe

#include "kernels/core/executor.h"

#include <system_error>

#include "kernels/core/pool.h"

namespace troupe {

ThreadExecutor::ThreadExecutor() try : thread_([this] { run(); }) {
} catch (const std::system_error& error) {
  throw thread_refusal(0, 1, error);
}

ThreadExecutor::~ThreadExecutor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ready_.notify_one();
  thread_.join();
}

void ThreadExecutor::post(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  ready_.notify_one();
}

void ThreadExecutor::run() {
  use_one_openmp_thread();
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
      if (stop_) {
        return;
      }
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

bool ManualExecutor::run_one() {
  if (jobs_.empty()) {
    return false;
  }
  const Job job = std::move(jobs_.front());
  jobs_.pop_front();
  job();
  return true;
}

void ManualExecutor::run_all() {
  while (run_one()) {
  }
}

}  // namespace troupe

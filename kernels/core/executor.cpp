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

void ThreadExecutor::post_when(Condition condition, Job job) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(condition), std::move(job)});
  }
  ready_.notify_one();
}

std::optional<Executor::Job> ThreadExecutor::next() {
  std::unique_lock lock(mutex_);
  ready_.wait(lock,
              [this] { return stop_ || !jobs_.empty() || !waiting_.empty(); });
  if (stop_) {
    return std::nullopt;
  }
  Job job;
  if (!jobs_.empty()) {
    job = std::move(jobs_.front());
    jobs_.pop_front();
    return job;
  }
  // Only this thread takes from the front, and a deque that grows at its end
  // leaves it where it is.
  const Condition& condition = waiting_.front().condition;
  lock.unlock();
  if (!condition()) {
    std::this_thread::yield();
    return job;
  }
  lock.lock();
  job = std::move(waiting_.front().job);
  waiting_.pop_front();
  return job;
}

void ThreadExecutor::run() {
  use_one_openmp_thread();
  while (const std::optional<Job> job = next()) {
    if (*job) {
      (*job)();
    }
  }
}

bool ManualExecutor::run_one() {
  Job job;
  if (!jobs_.empty()) {
    job = std::move(jobs_.front());
    jobs_.pop_front();
  } else if (!waiting_.empty() && waiting_.front().first()) {
    job = std::move(waiting_.front().second);
    waiting_.pop_front();
  } else {
    return false;
  }
  job();
  return true;
}

void ManualExecutor::run_all() {
  while (run_one()) {
  }
}

}  // namespace troupe

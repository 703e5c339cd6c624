#include "actors/serial_runner.h"

#include <system_error>
#include <utility>

#include "kernels/core/pool.h"

namespace troupe::actors {

SerialRunner::SerialRunner(std::size_t capacity) try
    : capacity_(capacity), thread_([this] { run(); }) {
} catch (const std::system_error& error) {
  throw thread_refusal(0, 1, error);
}

SerialRunner::~SerialRunner() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SerialRunner::post(std::function<void()> job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return failure_ || jobs_.size() < capacity_; });
  throw_if_failed();
  jobs_.push_back(std::move(job));
  ++unfinished_;
  changed_.notify_all();
}

void SerialRunner::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return failure_ || unfinished_ == 0; });
  throw_if_failed();
}

void SerialRunner::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) {
      return;
    }
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    std::optional<Failure> failure;
    try {
      job();
    } catch (...) {
      failure = current_failure();
    }
    lock.lock();
    --unfinished_;
    if (failure) {
      failure_ = std::move(failure);
      unfinished_ -= jobs_.size();
      jobs_.clear();
    }
    changed_.notify_all();
  }
}

void SerialRunner::throw_if_failed() const {
  if (failure_) {
    throw to_error(*failure_);
  }
}

}  // namespace troupe::actors

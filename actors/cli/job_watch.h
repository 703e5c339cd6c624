#pragma once

#include <mutex>
#include <utility>

#include "actors/observer.h"
#include "kernels/core/clock.h"

namespace troupe::actors {

/// Keeps a job's newest progress for those who ask. Thread: any.
class JobWatch final : public Observer {
 public:
  /// begin: what is known before the first report.
  JobWatch(JobProgress begin, TimePoint start)
      : progress_(std::move(begin)), start_(start) {}

  void on_progress(const JobProgress& progress) override {
    const std::lock_guard lock(mutex_);
    progress_ = progress;
  }

  [[nodiscard]] JobProgress progress() const {
    const std::lock_guard lock(mutex_);
    return progress_;
  }
  [[nodiscard]] double elapsed_seconds() const {
    return std::chrono::duration<double>(SteadyClock().now() - start_).count();
  }

 private:
  mutable std::mutex mutex_;
  JobProgress progress_;
  TimePoint start_;
};

}  // namespace troupe::actors

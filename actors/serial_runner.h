#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "actors/grant.h"

namespace troupe::actors {

/// Runs jobs on a thread of its own, so that computing never waits for them.
/// They run one at a time, in the order of posting; after the first error the
/// rest is dropped.
/// Thread: any, except that one thread destroys it.
class SerialRunner {
 public:
  /// At most `capacity` jobs wait.
  explicit SerialRunner(std::size_t capacity = 64);
  /// Runs what waits, then ends.
  ~SerialRunner();
  SerialRunner(const SerialRunner&) = delete;
  SerialRunner& operator=(const SerialRunner&) = delete;

  /// Hands over a job; waits while the queue is full.
  /// Errors: the error of an earlier job, whatever it threw, as
  ///         troupe::Error.
  void post(std::function<void()> job);
  /// Returns when everything posted so far is done. Errors: as `post`.
  void flush();

 private:
  void run();
  void throw_if_failed() const;

  std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::size_t unfinished_ = 0;  ///< waiting or running
  bool stop_ = false;
  std::optional<Failure> failure_;
  std::thread thread_;
};

}  // namespace troupe::actors

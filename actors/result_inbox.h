#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "actors/grant.h"

namespace troupe::actors {

/// Results on their way to the coordinator of the same process. Workers append
/// results, and the coordinator takes all waiting results in one go.
/// Thread: any.
class ResultInbox {
 public:
  /// Returns whether it was empty: then the coordinator is to be woken.
  [[nodiscard]] bool push(GrantResult result) {
    const std::lock_guard lock(mutex_);
    results_.push_back(std::move(result));
    return results_.size() == 1;
  }
  /// Replaces `results` by the waiting ones, the results of one worker in their
  /// order. The memory of the old vector serves the next results.
  void take(std::vector<GrantResult>& results) {
    results.clear();
    const std::lock_guard lock(mutex_);
    results.swap(results_);
  }

 private:
  std::mutex mutex_;
  std::vector<GrantResult> results_;
};

}  // namespace troupe::actors

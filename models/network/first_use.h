#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "kernels/core/context.h"

namespace troupe::models {

/// A part of the weights that is read when it is first used. If reading fails,
/// or after a release, the next use reads the part again. Thread: any; a thread
/// that comes during the reading waits.
template <typename T>
class FirstUse {
 public:
  using Read = std::function<std::shared_ptr<const T>(ExecContext& ctx)>;

  /// When `read` returns, the part is complete, on the device too.
  explicit FirstUse(Read read) : read_(std::move(read)) {}
  /// A part that exists already. It is never released.
  explicit FirstUse(std::shared_ptr<const T> there)
      : there_(std::move(there)) {}

  /// Errors: those of `read`.
  [[nodiscard]] std::shared_ptr<const T> get(ExecContext& ctx) {
    const std::lock_guard lock(mutex_);
    if (!there_) {
      there_ = read_(ctx);
    }
    return there_;
  }
  /// Releases the part, unless it existed from the beginning. Current users
  /// keep it alive. Returns whether a part was released.
  bool let_go() {
    const std::lock_guard lock(mutex_);
    return read_ && std::exchange(there_, nullptr) != nullptr;
  }

 private:
  Read read_;
  std::mutex mutex_;
  std::shared_ptr<const T> there_;
};

}  // namespace troupe::models

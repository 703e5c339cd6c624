#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "kernels/core/context.h"

namespace troupe::models {

/// A part of the weights that is read when it is first used. If reading fails,
/// or if the part was let go, the next use reads it again. Thread: any. Who
/// comes while it is read waits.
template <typename T>
class FirstUse {
 public:
  using Read = std::function<std::shared_ptr<const T>(ExecContext& ctx)>;

  /// When `read` returns, the part is complete, on the device too.
  explicit FirstUse(Read read) : read_(std::move(read)) {}
  /// A part that is there already. It is never let go.
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
  /// Forgets the part, unless it was there from the beginning. Who still uses
  /// it keeps it. Returns whether something was forgotten.
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

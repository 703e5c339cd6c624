#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "kernels/core/context.h"

namespace troupe::models {

/// Something of the weights that is read when it is first used. If that fails,
/// or it was let go, the next use reads it again. Thread: any; who comes
/// meanwhile waits.
template <typename T>
class FirstUse {
 public:
  using Read = std::function<std::shared_ptr<const T>(ExecContext& ctx)>;

  /// `read` is complete on return, also on the device.
  explicit FirstUse(Read read) : read_(std::move(read)) {}
  /// It is there already.
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
  /// Who still uses it keeps it. Whether it was there; what was not read here
  /// stays.
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

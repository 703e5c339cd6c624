#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "kernels/core/error.h"

namespace troupe::actors {

/// Keeps SIGINT and SIGTERM from every thread started after it, so that one
/// thread can wait for them. Call first in main. SIGPIPE is ignored.
void block_stop_signals();

/// Waits for Ctrl-C and SIGTERM on a thread of its own. Without a handler the
/// first signal ends the process with 130 or 75; with one it calls the handler
/// instead, once. A second Ctrl-C always ends the process.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Sets what a signal does from now on; an empty handler takes it back.
  /// `handler` runs on the watch's thread.
  void set_handler(std::function<void()> handler);

  /// Errc::interrupted or Errc::terminated once a signal has come.
  [[nodiscard]] std::optional<Errc> received() const noexcept;

 private:
  void wait();

  std::mutex mutex_;
  std::function<void()> handler_;
  std::atomic<int> signal_{0};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

/// While it lives, a signal sets a flag instead of ending the process; also
/// when the scope is left by an exception.
class StopFlag {
 public:
  explicit StopFlag(SignalWatch& signals) : signals_(signals) {
    signals_.set_handler([this] { flag_ = true; });
  }
  ~StopFlag() { signals_.set_handler({}); }
  StopFlag(const StopFlag&) = delete;
  StopFlag& operator=(const StopFlag&) = delete;

  [[nodiscard]] const std::atomic<bool>& flag() const noexcept { return flag_; }

 private:
  SignalWatch& signals_;
  std::atomic<bool> flag_{false};
};

}  // namespace troupe::actors

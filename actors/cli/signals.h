#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "kernels/core/error.h"

namespace troupe::actors {

/// Opens what of stdin, stdout and stderr was closed when the program began:
/// else the first file of the run would take its number, and messages would go
/// into an image. Writing to such a stdout fails. Call first in main.
void open_standard_files();

/// Keeps SIGINT, SIGTERM and SIGHUP (unless it is ignored) from every thread
/// started after it, so that one thread can wait for them. Call before any
/// thread starts. SIGPIPE and SIGXFSZ are ignored: a write that cannot be done
/// shall fail, not end the process.
void block_stop_signals();

/// Waits for Ctrl-C, SIGTERM and the terminal's end on a thread of its own.
/// Without a handler the first signal ends the process with 130 or 75, after
/// `last_words`; with one it calls the handler instead, once. A second Ctrl-C
/// always ends the process.
class SignalWatch {
 public:
  /// Errors: Errc::invalid_argument where the system refuses a thread.
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Sets what a signal does from now on; an empty handler takes it back.
  /// `handler` runs on the watch's thread, never after this returned.
  void set_handler(std::function<void()> handler);
  /// What is said when a signal ends the process. Runs on the watch's thread.
  void set_last_words(std::function<void(Errc)> last_words);

  /// Errc::interrupted or Errc::terminated once a signal has come.
  [[nodiscard]] std::optional<Errc> received() const noexcept;

 private:
  void wait();

  std::mutex mutex_;
  std::function<void()> handler_;
  std::function<void(Errc)> last_words_;
  std::atomic<int> signal_{0};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

/// While it lives, a signal sets a flag instead of ending the process; also
/// when the scope is left by an exception.
class StopFlag {
 public:
  explicit StopFlag(SignalWatch& signals);
  ~StopFlag();
  StopFlag(const StopFlag&) = delete;
  StopFlag& operator=(const StopFlag&) = delete;

  [[nodiscard]] const std::atomic<bool>& flag() const noexcept { return flag_; }
  /// Errors: Errc::interrupted or Errc::terminated once a signal has come.
  void check(std::string_view place, std::string_view message) const;

 private:
  friend class StopAction;
  void set_action(const std::function<void()>& action);

  SignalWatch& signals_;
  std::atomic<bool> flag_{false};
};

/// While it lives, a signal does something more than set the flag. One at a
/// time. `action` runs on the watch's thread, at once if the signal has come,
/// perhaps twice.
class StopAction {
 public:
  StopAction(StopFlag& stop, const std::function<void()>& action);
  ~StopAction();
  StopAction(const StopAction&) = delete;
  StopAction& operator=(const StopAction&) = delete;

 private:
  StopFlag& stop_;
};

}  // namespace troupe::actors

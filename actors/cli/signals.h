#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "kernels/core/error.h"

namespace troupe::actors {

/// Opens what of stdin, stdout and stderr was closed when the program began:
/// else the first file of the run would take its number, and messages would go
/// into an image. Writing to such a stdout fails. Call first in main.
void open_standard_files();

/// Keeps SIGINT, SIGTERM, SIGUSR1 and SIGHUP from every thread started after
/// it, so that one thread can wait for them; those that the parent made us
/// ignore (nohup, a shell's trap '' or background) stay ignored. Call before
/// any thread starts. SIGPIPE and SIGXFSZ are ignored: a write that cannot be
/// done shall fail, not end the process.
void block_stop_signals();

/// Waits for Ctrl-C, SIGTERM, SIGUSR1 (which Slurm can send ahead of the time
/// limit) and the terminal's end on a thread of its own. Without a handler the
/// first signal ends the process with 130 or 75, after `last_words`; with one
/// it calls the handler instead, once. Ctrl-C after a first signal ends the
/// process in any case, after `last_words`.
///
/// One thread has the last word, that of a signal or that of the program: so
/// what a run ends with is said once, whenever a signal comes.
class SignalWatch {
 public:
  /// What is said when a signal ends the process. `again`: by Ctrl-C while a
  /// first signal was ending the run. Runs on the watch's thread.
  using LastWords = std::function<void(Errc code, bool again)>;

  /// Errors: Errc::invalid_argument where the system refuses a thread.
  explicit SignalWatch(LastWords last_words = {});
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Sets what a signal does from now on; an empty handler takes it back.
  /// `handler` runs on the watch's thread, never after this returned.
  void set_handler(std::function<void()> handler);
  void set_last_words(LastWords last_words);

  /// Takes the last word for the program. From here on a signal waits for the
  /// program's own end, a few seconds at most: what is being said may have no
  /// reader. Where a signal has the word already, this does not return: the
  /// process is ending. May be called again. Thread: the program's.
  void take_last_word();

  /// As if a signal had come: `by` has cancelled the job. Thread: any.
  void cancel(const std::string& by);

  /// Errc::interrupted, Errc::terminated or Errc::cancelled once a signal has
  /// come.
  [[nodiscard]] std::optional<Errc> received() const noexcept;
  /// Who cancelled; empty unless `received` is Errc::cancelled. Thread: any.
  [[nodiscard]] std::string cancelled_by() const;

 private:
  void wait();
  void end_process(Errc code, bool again);

  mutable std::mutex mutex_;
  std::function<void()> handler_;
  LastWords last_words_;
  std::string cancelled_by_;  ///< by whom first
  std::atomic<int> signal_{0};
  std::atomic<bool> is_cancelled_{false};
  std::atomic<bool> ended_{false};
  std::atomic<bool> word_is_taken_{false};
  bool word_is_ours_ = false;  ///< of the program's thread
  std::thread thread_;         // last: it uses what stands above
};

/// Writes a text to a descriptor, past the streams of the C library, and gives
/// up when nobody has read for `patience_ms`.
void write_patiently(int descriptor, std::string_view text, int patience_ms);

/// While it lives, a signal asks for a stop instead of ending the process; also
/// when the scope is left by an exception. What a stop shall do at once is a
/// std::stop_callback of its token; it runs on the watch's thread.
class StopFlag {
 public:
  explicit StopFlag(SignalWatch& signals);
  ~StopFlag();
  StopFlag(const StopFlag&) = delete;
  StopFlag& operator=(const StopFlag&) = delete;

  [[nodiscard]] std::stop_token token() const noexcept {
    return source_.get_token();
  }
  [[nodiscard]] bool is_set() const noexcept {
    return source_.stop_requested();
  }
  /// Errors: Errc::interrupted, Errc::terminated or Errc::cancelled once a
  /// signal has come. The last says by whom.
  void check(std::string_view place, std::string_view message) const;

 private:
  SignalWatch& signals_;
  std::stop_source source_;
};

}  // namespace troupe::actors

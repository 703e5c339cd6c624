#include "actors/cli/signals.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "kernels/core/pool.h"

namespace troupe::actors {
namespace {

/// What the parent made us ignore we ignore: nohup lets a run outlive its
/// terminal, a shell without job control its Ctrl-C.
bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

sigset_t stop_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    if (!is_ignored(signal)) {
      ::sigaddset(&set, signal);
    }
  }
  return set;
}

/// Ends the watching thread's wait. The system ignores SIGURG by default, so
/// one that comes before the thread waits is lost. The wait then ends by its
/// own timeout.
constexpr int kWake = SIGURG;

/// How long a process that is to end waits for its own last word.
constexpr int kPatienceMs = 5000;

/// In the place of a signal's number: troupe cancel has ended the job.
constexpr int kCancelled = NSIG;

Errc code_of(int signal) {
  return signal == SIGINT       ? Errc::interrupted
         : signal == kCancelled ? Errc::cancelled
                                : Errc::terminated;
}

}  // namespace

void open_standard_files() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) < 0) {
      // The lowest free number is this one. Read only: a write shall fail.
      (void)::open("/dev/null", O_RDONLY);
    }
  }
}

void block_stop_signals() {
  const sigset_t set = stop_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

SignalWatch::SignalWatch(LastWords last_words) try
    : last_words_(std::move(last_words)), thread_([this] { wait(); }) {
} catch (const std::system_error& error) {
  throw thread_refusal(0, 1, error);
}

SignalWatch::~SignalWatch() {
  ended_ = true;
  ::pthread_kill(thread_.native_handle(), kWake);
  thread_.join();
}

void SignalWatch::set_handler(std::function<void()> handler) {
  const std::lock_guard lock(mutex_);
  handler_ = std::move(handler);
}

void SignalWatch::set_last_words(LastWords last_words) {
  const std::lock_guard lock(mutex_);
  last_words_ = std::move(last_words);
}

void SignalWatch::take_last_word() {
  if (word_is_ours_) {
    return;
  }
  while (word_is_taken_.exchange(true)) {
    ::pause();  // the watch's thread is about to end the process
  }
  word_is_ours_ = true;
}

void SignalWatch::cancel(const std::string& by) {
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_by_.empty()) {
      cancelled_by_ = by;
    }
  }
  is_cancelled_ = true;
  ::pthread_kill(thread_.native_handle(), kWake);
}

std::optional<Errc> SignalWatch::received() const noexcept {
  const int signal = signal_;
  return signal == 0 ? std::nullopt : std::optional(code_of(signal));
}

std::string SignalWatch::cancelled_by() const {
  const std::lock_guard lock(mutex_);
  return signal_ == kCancelled ? cancelled_by_ : std::string();
}

void SignalWatch::wait() {
  // How long the destructor may wait for this thread when kWake is lost.
  constexpr timespec kPatience{.tv_sec = 0, .tv_nsec = 20'000'000};
  sigset_t set = stop_signals();
  ::sigaddset(&set, kWake);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  while (!ended_) {
    int signal = ::sigtimedwait(&set, nullptr, &kPatience);
    if ((signal <= 0 || signal == kWake) && is_cancelled_.exchange(false)) {
      signal = kCancelled;
    }
    if (signal <= 0 || signal == kWake || ended_) {
      // After the end it is too late: the program's last word is out.
      continue;
    }
    const bool first = signal_ == 0;
    if (signal == kCancelled && !first && signal_ != SIGINT) {
      signal_ = kCancelled;  // nobody is to begin the job again
      continue;
    }
    if (first) {
      signal_ = signal;
      const std::lock_guard lock(mutex_);
      if (handler_) {
        handler_();
        continue;
      }
    }
    if (first || signal == SIGINT) {
      end_process(code_of(signal), !first);
    }
  }
}

void SignalWatch::end_process(Errc code, bool again) {
  if (!word_is_taken_.exchange(true)) {
    LastWords last_words;
    {
      const std::lock_guard lock(mutex_);
      last_words = last_words_;
    }
    if (last_words) {
      last_words(code, again);
    }
  } else {
    constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 10'000'000};
    for (int i = 0; i < kPatienceMs / 10; ++i) {
      if (ended_) {
        return;
      }
      ::nanosleep(&kPause, nullptr);
    }
  }
  ::_exit(exit_code(code));
}

void write_patiently(int descriptor, std::string_view text, int patience_ms) {
  while (!text.empty()) {
    pollfd ready{.fd = descriptor, .events = POLLOUT, .revents = 0};
    if (::poll(&ready, 1, patience_ms) <= 0) {
      return;
    }
    // A pipe that is ready takes so much without waiting.
    const ::ssize_t count = ::write(
        descriptor, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (count <= 0) {
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

StopFlag::StopFlag(SignalWatch& signals) : signals_(signals) {
  signals_.set_handler([this] { source_.request_stop(); });
}

StopFlag::~StopFlag() { signals_.set_handler({}); }

void StopFlag::check(std::string_view place, std::string_view message) const {
  if (is_set()) {
    const std::string by = signals_.cancelled_by();
    throw Error(
        signals_.received().value_or(Errc::interrupted), place,
        (by.empty() ? "" : "cancelled by " + by + ": ") + std::string(message));
  }
}

}  // namespace troupe::actors

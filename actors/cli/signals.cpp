#include "actors/cli/signals.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "kernels/core/pool.h"

namespace troupe::actors {
namespace {

/// nohup lets a run outlive its terminal.
bool ignores_hangup() {
  struct sigaction now {};
  return ::sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

sigset_t stop_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  if (!ignores_hangup()) {
    ::sigaddset(&set, SIGHUP);
  }
  return set;
}

/// Ends the watching thread's wait. Ignored by default, so where it comes too
/// early to be waited for it is lost, and the wait ends by itself.
constexpr int kWake = SIGURG;

Errc code_of(int signal) {
  return signal == SIGINT ? Errc::interrupted : Errc::terminated;
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

SignalWatch::SignalWatch() try : thread_([this] { wait(); }) {
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

void SignalWatch::set_last_words(std::function<void(Errc)> last_words) {
  const std::lock_guard lock(mutex_);
  last_words_ = std::move(last_words);
}

std::optional<Errc> SignalWatch::received() const noexcept {
  const int signal = signal_;
  return signal == 0 ? std::nullopt : std::optional(code_of(signal));
}

void SignalWatch::wait() {
  // How long the destructor may wait for this thread when kWake is lost.
  constexpr timespec kPatience{.tv_sec = 0, .tv_nsec = 20'000'000};
  sigset_t set = stop_signals();
  ::sigaddset(&set, kWake);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  while (!ended_) {
    const int signal = ::sigtimedwait(&set, nullptr, &kPatience);
    if (signal <= 0 || signal == kWake || ended_) {
      // After the end it is too late: the program's last word is out.
      continue;
    }
    const bool first = signal_ == 0;
    if (first) {
      signal_ = signal;
      const std::lock_guard lock(mutex_);
      if (handler_) {
        handler_();
        continue;
      }
      if (last_words_) {
        last_words_(code_of(signal));
      }
    }
    if (first || signal == SIGINT) {
      ::_exit(exit_code(code_of(signal)));
    }
  }
}

StopFlag::StopFlag(SignalWatch& signals) : signals_(signals) { set_action({}); }

StopFlag::~StopFlag() { signals_.set_handler({}); }

void StopFlag::set_action(const std::function<void()>& action) {
  signals_.set_handler([this, action] {
    flag_ = true;
    if (action) {
      action();
    }
  });
  if (flag_ && action) {  // it came before
    action();
  }
}

void StopFlag::check(std::string_view place, std::string_view message) const {
  if (flag_) {
    throw Error(signals_.received().value_or(Errc::interrupted), place,
                message);
  }
}

StopAction::StopAction(StopFlag& stop, const std::function<void()>& action)
    : stop_(stop) {
  stop_.set_action(action);
}

StopAction::~StopAction() { stop_.set_action({}); }

}  // namespace troupe::actors

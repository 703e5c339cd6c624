#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <optional>
#include <thread>
#include <tuple>

#include "actors/cli/run_troupe.h"
#include "actors/cli/signals.h"
#include "tests/core/limited_threads.h"

namespace troupe::actors {
namespace {

/// Death tests: a signal's block outlives the test otherwise.
[[noreturn]] void end_with(bool good) { ::_exit(good ? 0 : 1); }

TEST(SignalsDeathTest, ReachTheActionAndTheFlag) {
  const auto body = [] {
    block_stop_signals();
    SignalWatch signals;
    StopFlag stop(signals);
    std::promise<void> called;
    const std::stop_callback action(stop.token(), [&] { called.set_value(); });
    ::kill(::getpid(), SIGTERM);
    called.get_future().wait();
    bool threw = false;
    try {
      stop.check("here", "stopped");
    } catch (const Error& error) {
      threw = error.code() == Errc::terminated;
    }
    bool late = false;
    {
      const std::stop_callback other(stop.token(), [&] { late = true; });
    }
    end_with(threw && late);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST(SignalsDeathTest, TellACancelFromSigterm) {
  const auto body = [] {
    block_stop_signals();
    SignalWatch signals;
    StopFlag stop(signals);
    std::promise<void> called;
    const std::stop_callback action(stop.token(), [&] { called.set_value(); });
    const bool nobody = signals.cancelled_by().empty();
    signals.cancel("ann at host:1");
    signals.cancel("bob at host:2");  // too late
    called.get_future().wait();
    bool threw = false;
    try {
      stop.check("here", "stopped");
    } catch (const Error& error) {
      threw = error.code() == Errc::cancelled &&
              error.message() == "cancelled by ann at host:1: stopped";
    }
    end_with(nobody && threw && signals.cancelled_by() == "ann at host:1");
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

/// Slurm asks a job to stop, and somebody cancels the job before it has ended:
/// nobody is to begin it again.
TEST(SignalsDeathTest, HearACancelAfterSigterm) {
  const auto body = [] {
    block_stop_signals();
    SignalWatch signals;
    StopFlag stop(signals);
    std::promise<void> called;
    const std::stop_callback action(stop.token(), [&] { called.set_value(); });
    ::kill(::getpid(), SIGTERM);
    called.get_future().wait();
    signals.cancel("ann at host:1");
    while (signals.received() != Errc::cancelled) {
      std::this_thread::yield();
    }
    end_with(signals.cancelled_by() == "ann at host:1");
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST(SignalsDeathTest, EndTheProcessWithLastWords) {
  const auto body = [] {
    block_stop_signals();
    SignalWatch signals;
    signals.set_last_words([](Errc code, bool again) {
      (void)::write(
          STDERR_FILENO,
          code == Errc::interrupted && !again ? "last words" : "wrong", 10);
    });
    ::kill(::getpid(), SIGINT);
    for (;;) {
      ::pause();
    }
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(130), "last words");
}

/// Ends the process as the program would.
[[noreturn]] void sample_with_threads(::rlim_t count) {
  const bool is_limited = limit_threads(count);
  ::_exit(is_limited
              ? run_troupe({"sample", "--random-weights", "dit-tiny", "--steps",
                            "1", "--class", "0", "--workers", "2", "--threads",
                            "2", "--progress", "none", "-q"})
              : 3);
}

TEST(ThreadLimitDeathTest, EndsARunWithOneLineWhereverItIsMet) {
  if (!threads_can_be_limited()) {
    GTEST_SKIP() << "this system starts threads without limit";
  }
  constexpr ::rlim_t kTooFew = 9;  // main, signals, 4 of CAF, 4 of ours
  for (::rlim_t count = 0; count <= kTooFew; ++count) {
    EXPECT_EXIT(sample_with_threads(count), testing::ExitedWithCode(2),
                "^troupe: \\[threads\\] cannot start: got [^\n]*\n$")
        << count;
  }
}

TEST(SignalsDeathTest, HaveLastWordsAtTheSecondInterruptToo) {
  const auto body = [] {
    block_stop_signals();
    SignalWatch signals([](Errc, bool again) {
      (void)::write(STDERR_FILENO, again ? "again" : "first", 5);
    });
    const StopFlag stop(signals);
    ::kill(::getpid(), SIGINT);
    while (!stop.is_set()) {
      std::this_thread::yield();
    }
    ::kill(::getpid(), SIGINT);
    for (;;) {
      ::pause();
    }
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(130), "^again$");
}

TEST(SignalsDeathTest, HaveNoWordOnceTheProgramHasTheLast) {
  const auto body = [] {
    block_stop_signals();
    std::optional<SignalWatch> signals;
    signals.emplace(
        [](Errc, bool) { (void)::write(STDERR_FILENO, "signal", 6); });
    signals->take_last_word();
    ::kill(::getpid(), SIGTERM);
    while (!signals->received()) {
      std::this_thread::yield();
    }
    signals->take_last_word();
    (void)::write(STDERR_FILENO, "program", 7);
    signals.reset();
    ::_exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "^program$");
}

TEST(SignalsDeathTest, LeaveWhatIsIgnoredIgnored) {
  // As under nohup, or in a shell's trap ''. Were both waited for, the first
  // would come first: its number is lower.
  for (const auto& [ignored, heard, code] :
       {std::tuple{SIGHUP, SIGINT, 130}, {SIGINT, SIGTERM, 75}}) {
    const auto body = [ignored = ignored, heard = heard] {
      (void)::signal(ignored, SIG_IGN);
      block_stop_signals();
      const SignalWatch signals;
      ::kill(::getpid(), ignored);
      ::kill(::getpid(), heard);
      for (;;) {
        ::pause();
      }
    };
    EXPECT_EXIT(body(), testing::ExitedWithCode(code), "");
  }
}

}  // namespace
}  // namespace troupe::actors

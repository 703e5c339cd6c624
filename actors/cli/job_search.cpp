#include "actors/cli/job_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "actors/cli/link_options.h"
#include "actors/cli/progress_printer.h"
#include "actors/cli/versions.h"
#include "actors/remote/client_service.h"

namespace troupe::actors {
namespace {

using std::chrono::milliseconds;
using Seconds = std::chrono::duration<double>;

/// Between two tries to reach a coordinator: doubled, from the first on.
constexpr milliseconds kFirstPause(100);
constexpr milliseconds kLongestPause(2000);
/// For the coordinator to answer a greeting.
constexpr Seconds kLeastAnswer = milliseconds(500);
constexpr Seconds kMostAnswer = std::chrono::seconds(3);
/// Until a job that this process could not do is asked for again.
constexpr Seconds kSameJobPause = std::chrono::seconds(30);

/// "0.5 s", "4 s", "5 min 00 s".
std::string looked_text(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kFew = 3;
  if (seconds > kMinute) {
    return render_seconds(seconds);
  }
  return fmt::format("{:.{}f} s", seconds, seconds < kFew ? 1 : 0);
}

/// What would look longer than `seconds`.
std::string longer_wait(double seconds) {
  constexpr double kFiveMinutes = 300;
  constexpr double kHour = 3600;
  if (seconds >= kHour) {
    return {};
  }
  return std::string("--wait ") + (seconds < kFiveMinutes ? "5m" : "1h") +
         " looks longer";
}

/// The error as one line.
std::string line_of(const Error& error) {
  return error.what() + (error.hint().empty() ? "" : "; " + error.hint());
}

}  // namespace

JobSearch::JobSearch(const Invocation& invocation, const StopFlag& stop)
    : invocation_(invocation),
      stop_(stop),
      since_(std::chrono::steady_clock::now()),
      wait_(kFirstPause) {}

double JobSearch::seconds_gone() const {
  return Seconds(std::chrono::steady_clock::now() - since_).count();
}

Duration JobSearch::answer_within() const {
  const config::Config& config = invocation_.config;
  const Seconds left(config.wait_seconds - seconds_gone());
  return std::chrono::duration_cast<Duration>(
      config.stay ? kMostAnswer : std::clamp(left, kLeastAnswer, kMostAnswer));
}

void JobSearch::reached() {
  since_ = std::chrono::steady_clock::now();
  was_reached_ = true;
  wait_ = kFirstPause;
}

void JobSearch::tell(const std::string& what) {
  if (!invocation_.config.quiet && said_ != what) {
    say(stderr, "troupe: " + what);
  }
  said_ = what;
}

/// False when a signal came meanwhile.
bool JobSearch::pause(milliseconds time) const {
  std::mutex mutex;
  std::condition_variable_any woken;
  std::unique_lock lock(mutex);
  return !woken.wait_for(lock, stop_.token(), time,
                         [this] { return stop_.is_set(); });
}

bool JobSearch::may_try_again(const Error& error) {
  const config::Config& config = invocation_.config;
  const double gone = seconds_gone() + Seconds(wait_).count();
  if (!config.stay && gone >= config.wait_seconds) {
    return false;
  }
  // What is wrong with the address itself is said at once: --wait may be long,
  // and the name misspelt.
  if (error.place() == config.place_of("join")) {
    tell(line_of(error) + "; it is looked for again");
  }
  if (!pause(wait_)) {
    return false;
  }
  wait_ = std::min(2 * wait_, kLongestPause);
  return true;
}

void JobSearch::await_another_job(const Error& why) {
  const config::Config& config = invocation_.config;
  tell("this process cannot do the job at " + config.join + ": " +
       line_of(why) + "; it waits for another job");
  since_ = std::chrono::steady_clock::now();
  const auto left = [this] { return kSameJobPause.count() - seconds_gone(); };
  try {
    // As one that looks on, it hears when the job is over.
    net::DialOptions dial = dial_options(config);
    dial.deadline = std::chrono::duration_cast<Duration>(kMostAnswer);
    JobClient job({.version = version(),
                   .name = process_name(),
                   .hub = hub_options(config, kClientRole),
                   .endpoint = config.join,
                   .place = config.place_of("join"),
                   .dial = dial});
    while (left() > 0 && job.ask(AskStatus{}, kClientPatience, stop_.token()) &&
           pause(kLongestPause)) {
    }
  } catch (const Error& error) {
    if (error.code() != Errc::unreachable && left() > 0) {
      (void)pause(std::chrono::duration_cast<milliseconds>(Seconds(left())));
    }
  }
  stop_.check("worker", "stopped while it waited for a job that it can do");
  reached();
}

Error JobSearch::in_vain(const Error& last) const {
  const config::Config& config = invocation_.config;
  std::string hint = last.hint();
  const std::string longer = longer_wait(config.wait_seconds);
  hint += (hint.empty() || longer.empty() ? "" : "; ") + longer;
  return {Errc::unreachable, config.place_of("join"),
          fmt::format("no job was found{} at {} within {}: {}",
                      was_reached_ ? " again" : "", config.join,
                      looked_text(seconds_gone()), last.message()),
          hint};
}

}  // namespace troupe::actors

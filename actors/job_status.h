#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>

#include "actors/coordinator_events.h"
#include "actors/observer.h"

// The status of a running job, and the questions of its clients.

namespace troupe::actors {

/// How far a job is, for people.
struct ProgressView {
  std::uint64_t images_done = 0;
  std::uint64_t images_total = 0;
  double fraction = 0;          ///< of all network calls, blocks included
  double calls_per_second = 0;  ///< 0: not known
  double seconds_left = -1;     ///< < 0: not known
  /// No worker is there: neither a speed nor a time is known.
  bool waits_for_workers = false;
};

/// At the mean speed since the job began.
[[nodiscard]] inline ProgressView view_of(const JobProgress& progress,
                                          double elapsed_seconds) {
  ProgressView view{.images_done = progress.samples_done,
                    .images_total = progress.samples_total,
                    .waits_for_workers = progress.waits_for_workers};
  const double done =
      static_cast<double>(progress.calls_done) + progress.calls_under_way;
  if (progress.calls_total > 0) {
    view.fraction =
        std::clamp(done / static_cast<double>(progress.calls_total), 0.0, 1.0);
  }
  if (elapsed_seconds > 0 && view.fraction > 0 && !view.waits_for_workers) {
    view.calls_per_second = done / elapsed_seconds;
    view.seconds_left = elapsed_seconds * (1 - view.fraction) / view.fraction;
  }
  return view;
}

/// How a job stands, for those who ask.
struct JobStatus {
  std::string model;
  std::string method;
  JobProgress progress = {};
  double elapsed_seconds = 0;

  [[nodiscard]] ProgressView view() const {
    return view_of(progress, elapsed_seconds);
  }

  friend bool operator==(const JobStatus&, const JobStatus&) = default;
};

/// How does the job stand? The answer is a JobStatus.
struct AskStatus {};
/// The job is cancelled: it ends as at SIGTERM, and is not to be tried again.
struct AskStop {
  std::string user;  ///< who asks, as that process's host knows it
};
using ClientQuestion = std::variant<AskStatus, AskStop, CancelSample>;

/// The request was carried out; `what` says how, for people.
struct Granted {
  std::string what;
};
using ClientAnswer = std::variant<JobStatus, Granted, Failure>;

}  // namespace troupe::actors

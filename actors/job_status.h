#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "actors/coordinator_events.h"
#include "actors/node_status.h"

// The status of a running job, and the questions of its clients.

namespace troupe::actors {

/// How a job stands.
struct JobStatus {
  std::string model;
  std::string method;
  std::uint64_t images_total = 0;  ///< without cancelled ones
  std::uint64_t images_done = 0;
  std::uint64_t images_failed = 0;
  std::uint64_t images_cancelled = 0;
  std::int64_t calls_done = 0;  ///< of the network, of calls_total
  std::int64_t calls_total = 0;
  double fraction = 0;          ///< of all calls, those under way included
  double calls_per_second = 0;  ///< 0: not known
  double elapsed_seconds = 0;
  double seconds_left = -1;        ///< < 0: not known
  bool waits_for_workers = false;  ///< see JobProgress
  std::int64_t recoveries = 0;
  std::vector<NodeStatus> nodes;

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

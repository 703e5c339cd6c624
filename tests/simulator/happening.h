#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "actors/coordinator_policy.h"
#include "actors/supervisor_policy.h"
#include "actors/worker_policy.h"
#include "tests/simulator/link_pair.h"
#include "tests/simulator/scenario.h"
#include "tests/simulator/symbols.h"

// The events of a simulated company, by time.
namespace troupe::actors::simulator {

struct ToCoordinator {
  CoordinatorEvent event;
};

struct ToSupervisor {
  SupervisorEvent event;
};

struct ToWorker {
  int worker = 0;
  std::uint32_t epoch = 0;
  WorkerEvent event;
};

/// A pass ends, unless something moved its end since.
struct PassEnds {
  int worker = 0;
  std::uint64_t pass = 0;
};

struct Thaws {
  int worker = 0;
};

/// A process is to free values.
struct ToProcess {
  int process = 0;
  std::variant<FreeValues, DropRuns> news;
};

/// A process is asked for a value, and answers.
struct Question {
  /// The link that the question came over, and the link's number of the
  /// question.
  struct Origin {
    int process = 0;
    Side side{};
    net::WantId want = 0;
  };
  std::uint64_t fetch = 0;
  RemoteValue value;
  std::optional<Origin> origin = {};
};

struct Answer {
  std::uint64_t fetch = 0;
  RemoteValue value;
  std::optional<Symbol> symbol;
};

struct Pulse {};

// With links.

/// A new process of the host dials.
struct Dials {
  int host = 0;
};

/// A frame or a timer: most of all events, in a queue of their own.
struct LinkDue {
  int process = 0;
  std::size_t what = 0;
};

struct Letter;

/// A link is to carry something.
struct Post {
  int process = 0;
  Side from{};
  std::shared_ptr<Letter> letter;
};

/// A process hears of the job, and has the model later.
struct Offered {
  int process = 0;
  bool is_ready = false;
};

/// It may start its workers.
struct Admitted {
  AdmitProcess admit;
};

/// It is to end an incarnation of a worker.
struct EndsWorker {
  int worker = 0;
  std::uint32_t epoch = 0;
  Failure cause;
};

/// There is nothing to do any more.
struct Over {
  int process = 0;
};

using Happening =
    std::variant<ToCoordinator, ToSupervisor, ToWorker, ToProcess, Question,
                 Answer, StartChild, PassEnds, Thaws, Pulse, Fault, Dials, Post,
                 Offered, Admitted, EndsWorker, Over, LinkFault>;

/// What a link carries.
struct Letter {
  int to = 0;
  Happening news;
  TimePoint since;  ///< when the link got it
};

}  // namespace troupe::actors::simulator

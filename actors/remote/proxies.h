#pragma once

#include <functional>
#include <memory>

#include "actors/messages.h"
#include "actors/remote/mail.h"
#include "actors/session.h"
#include "actors/wire/news_codec.h"

// Actors that stand for those of another process: what they are told goes over
// a link. Their end is told too, where it means something there. Threads of a
// link may spawn the first two.

namespace troupe::actors {

/// In the coordinator's process: an incarnation of a worker elsewhere. To end
/// it is to end that (EndWorker).
[[nodiscard]] WorkerActor spawn_worker_proxy(caf::actor_system& system,
                                             std::shared_ptr<Outbox> outbox,
                                             const WorkerUp& of);

/// In the coordinator's process: another process. `on_answer` hears whether it
/// was admitted, before the process does; `on_refusal`, that it was not.
/// `on_end` is called when the coordinator lets it go. Thread of all: the
/// actor's.
struct ProcessProxySpec {
  std::shared_ptr<Outbox> outbox;
  std::function<void(const AdmitProcess&)> on_answer;
  std::function<void(const Failure&)> on_refusal;
  std::function<void()> on_end;
};
[[nodiscard]] ProcessActor spawn_process_proxy(caf::actor_system& system,
                                               ProcessProxySpec spec);

/// In a worker's process: the coordinator. Those who present themselves to it
/// are handed to `on_process` and `on_worker`, so that its answers find them.
/// Thread of both: the actor's.
struct CoordinatorProxySpec {
  std::shared_ptr<Outbox> outbox;
  std::vector<ClassRecord> classes;  ///< see Join
  std::function<void(const ProcessActor&)> on_process;
  std::function<void(const WorkerUp&, const WorkerActor&)> on_worker;
  std::function<void(const Failure&)> on_fault;  ///< its process can do no more
};
[[nodiscard]] CoordinatorActor spawn_coordinator_proxy(
    caf::actor_system& system, CoordinatorProxySpec spec);

}  // namespace troupe::actors

#pragma once

#include <functional>
#include <memory>

#include "actors/messages.h"
#include "actors/remote/outbox.h"
#include "actors/session.h"
#include "actors/wire/codec.h"

// Actors that stand for actors of another process: messages to a proxy go over
// a link. The end of a proxy goes over the link too, where the other process
// has to act on it. Threads of a link may spawn the first two.

namespace troupe::actors {

/// In the coordinator's process: stands for an incarnation of a worker of
/// another process. The end of the proxy ends the incarnation (EndWorker).
[[nodiscard]] WorkerActor spawn_worker_proxy(caf::actor_system& system,
                                             std::shared_ptr<Outbox> outbox,
                                             const WorkerUp& of);

/// In the coordinator's process: stands for another process. `on_answer` hears
/// whether it was admitted, before the process does; `on_refusal`, that it was
/// not. `on_end` is called when the coordinator lets it go. Thread of all: the
/// actor's.
struct ProcessProxySpec {
  std::shared_ptr<Outbox> outbox;
  std::function<void(const AdmitProcess&)> on_answer;
  std::function<void(const Failure&)> on_refusal;
  std::function<void()> on_end;
};
[[nodiscard]] ProcessActor spawn_process_proxy(caf::actor_system& system,
                                               ProcessProxySpec spec);

/// In a worker's process: stands for the coordinator. Local actors that
/// announce themselves are passed to `on_process` and `on_worker`, so that
/// messages of the coordinator reach them.
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

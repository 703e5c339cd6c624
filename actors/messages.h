#pragma once

#include <caf/all.hpp>
#include <concepts>

#include "actors/coordinator_policy.h"
#include "actors/firing.h"
#include "actors/observer.h"
#include "actors/supervisor_policy.h"
#include "actors/worker_policy.h"
#include "kernels/core/error.h"

// Every message of the system, its type id, and who understands what.

namespace troupe::actors {

/// What observers of a job hear of.
using ObserverEvent = std::variant<JobProgress, SampleOutcome, Preview,
                                   TrajectoryPoint, TracePass, EndJob>;

/// Types that travel inside one process only.
template <typename T>
concept InProcess =
    AlternativeOf<T,
                  std::variant<WorkerMessage, ProcessMessage, CoordinatorEvent,
                               ObserverEvent, ProcessJoined, HolderAsked,
                               WorkerUp, WorkerDown, DropRuns, WorkerFault>>;

/// CAF 0.17 serialises a type it does not know to nothing, silently; these say
/// so instead. Errors: Errc::internal, always.
template <typename Inspector, InProcess T>
typename Inspector::result_type inspect(Inspector& /*f*/, T& /*value*/) {
  throw Error(Errc::internal, "messages",
              "an in-process message was about to be serialised");
}

}  // namespace troupe::actors

CAF_BEGIN_TYPE_ID_BLOCK(troupe, first_custom_type_id)

CAF_ADD_TYPE_ID(troupe, (troupe::actors::WorkerMessage))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::ProcessMessage))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::CoordinatorEvent))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::ObserverEvent))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::ProcessJoined))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::HolderAsked))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::WorkerUp))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::WorkerDown))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::DropRuns))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::WorkerFault))

CAF_ADD_ATOM(troupe, troupe::actors, start_atom, "start")
CAF_ADD_ATOM(troupe, troupe::actors, halt_atom, "halt")
CAF_ADD_ATOM(troupe, troupe::actors, pulse_atom, "pulse")
CAF_ADD_ATOM(troupe, troupe::actors, drain_atom, "drain")

CAF_END_TYPE_ID_BLOCK(troupe)

CAF_ERROR_CODE_ENUM(troupe::Errc, "troupe")

namespace troupe::actors {

/// Computes grants on its executor; its mailbox stays responsive meanwhile.
using WorkerActor =
    caf::typed_actor<caf::reacts_to<WorkerMessage>, caf::reacts_to<DropRuns>,
                     caf::reacts_to<WorkerFault>, caf::reacts_to<halt_atom>,
                     caf::reacts_to<pulse_atom>>;

/// Frees values of a process. It registers at the coordinator with the number
/// of the process, or asks to join.
using ProcessActor = caf::typed_actor<caf::reacts_to<ProcessMessage>>;

/// Directs one job. `drain`: there are results in its inbox.
using CoordinatorActor =
    caf::typed_actor<caf::reacts_to<int, ProcessActor>,
                     caf::reacts_to<ProcessJoined, ProcessActor>,
                     caf::reacts_to<WorkerUp, WorkerActor>,
                     caf::reacts_to<CoordinatorEvent>,
                     caf::reacts_to<HolderAsked>, caf::reacts_to<halt_atom>,
                     caf::reacts_to<pulse_atom>, caf::reacts_to<drain_atom>>;

/// Starts workers and starts them again.
using SupervisorActor = caf::typed_actor<caf::reacts_to<start_atom, int>>;

/// One process: its values and its workers.
using NodeActor = ProcessActor::extend<caf::reacts_to<WorkerUp, WorkerActor>,
                                       caf::reacts_to<WorkerDown>,
                                       caf::reacts_to<pulse_atom>>;

/// Tells the observers of a job what happens.
using ObserverActor = caf::typed_actor<caf::reacts_to<ObserverEvent>>;

}  // namespace troupe::actors

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

/// Types that travel inside one process only.
template <typename T>
concept InProcess = std::same_as<T, Grant> || std::same_as<T, GrantResult> ||
    std::same_as<T, FreeValues> || std::same_as<T, DropRuns> ||
    std::same_as<T, ValuesFetched> || std::same_as<T, CutTaken> ||
    std::same_as<T, IntermediateFetched> || std::same_as<T, Redirect> ||
    std::same_as<T, Recall> || std::same_as<T, DrainProcess> ||
    std::same_as<T, LinkMeasured> || std::same_as<T, HolderAsked> ||
    std::same_as<T, ProcessJoined> || std::same_as<T, AdmitProcess> ||
    std::same_as<T, RefuseProcess> || std::same_as<T, ProcessDown> ||
    std::same_as<T, CancelSample> || std::same_as<T, WorkerBeat> ||
    std::same_as<T, WorkerUp> || std::same_as<T, WorkerDown> ||
    std::same_as<T, WorkerFault> || std::same_as<T, JobFault> ||
    std::same_as<T, JobProgress> || std::same_as<T, SampleOutcome> ||
    std::same_as<T, Preview> || std::same_as<T, TrajectoryPoint> ||
    std::same_as<T, TracePass> || std::same_as<T, EndJob> ||
    std::same_as<T, OutcomeReleased>;

/// CAF 0.17 serialises a type it does not know to nothing, silently; these say
/// so instead. Errors: Errc::internal, always.
template <typename Inspector, InProcess T>
typename Inspector::result_type inspect(Inspector& /*f*/, T& /*value*/) {
  throw Error(Errc::internal, "messages",
              "an in-process message was about to be serialised");
}

}  // namespace troupe::actors

CAF_BEGIN_TYPE_ID_BLOCK(troupe, first_custom_type_id)

CAF_ADD_TYPE_ID(troupe, (troupe::actors::Grant))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::GrantResult))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::ValuesFetched))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::IntermediateFetched))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::CutTaken))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::Redirect))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::Recall))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::DrainProcess))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::LinkMeasured))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::HolderAsked))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::ProcessJoined))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::AdmitProcess))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::RefuseProcess))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::CancelSample))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::FreeValues))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::DropRuns))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::ProcessDown))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::WorkerBeat))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::WorkerFault))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::WorkerUp))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::WorkerDown))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::JobFault))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::JobProgress))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::SampleOutcome))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::Preview))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::TrajectoryPoint))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::TracePass))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::EndJob))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::OutcomeReleased))

CAF_ADD_ATOM(troupe, troupe::actors, start_atom, "start")
CAF_ADD_ATOM(troupe, troupe::actors, halt_atom, "halt")
CAF_ADD_ATOM(troupe, troupe::actors, pulse_atom, "pulse")
CAF_ADD_ATOM(troupe, troupe::actors, drain_atom, "drain")

CAF_END_TYPE_ID_BLOCK(troupe)

CAF_ERROR_CODE_ENUM(troupe::Errc, "troupe")

namespace troupe::actors {

/// Computes grants on its executor; its mailbox stays responsive meanwhile.
using WorkerActor =
    caf::typed_actor<caf::reacts_to<Grant>, caf::reacts_to<Redirect>,
                     caf::reacts_to<Recall>, caf::reacts_to<DropRuns>,
                     caf::reacts_to<WorkerFault>, caf::reacts_to<halt_atom>,
                     caf::reacts_to<pulse_atom>>;

/// Frees values of a process. It registers at the coordinator with the number
/// of the process, or asks to join.
using ProcessActor =
    caf::typed_actor<caf::reacts_to<FreeValues>, caf::reacts_to<DropRuns>,
                     caf::reacts_to<AdmitProcess>,
                     caf::reacts_to<RefuseProcess>>;

/// Directs one job. `drain`: there are results in its inbox.
using CoordinatorActor =
    caf::typed_actor<caf::reacts_to<int, ProcessActor>,
                     caf::reacts_to<ProcessJoined, ProcessActor>,
                     caf::reacts_to<WorkerUp, WorkerActor>,
                     caf::reacts_to<WorkerDown>, caf::reacts_to<WorkerBeat>,
                     caf::reacts_to<GrantResult>, caf::reacts_to<ValuesFetched>,
                     caf::reacts_to<JobFault>, caf::reacts_to<DrainProcess>,
                     caf::reacts_to<CancelSample>, caf::reacts_to<ProcessDown>,
                     caf::reacts_to<LinkMeasured>, caf::reacts_to<HolderAsked>,
                     caf::reacts_to<halt_atom>, caf::reacts_to<pulse_atom>,
                     caf::reacts_to<drain_atom>>;

/// Starts workers and starts them again.
using SupervisorActor = caf::typed_actor<caf::reacts_to<start_atom, int>>;

/// One process: its values and its workers.
using NodeActor = ProcessActor::extend<caf::reacts_to<WorkerUp, WorkerActor>,
                                       caf::reacts_to<WorkerDown>,
                                       caf::reacts_to<pulse_atom>>;

/// Tells the observers of a job what happens.
using ObserverActor =
    caf::typed_actor<caf::reacts_to<JobProgress>, caf::reacts_to<SampleOutcome>,
                     caf::reacts_to<Preview>, caf::reacts_to<TrajectoryPoint>,
                     caf::reacts_to<TracePass>, caf::reacts_to<EndJob>>;

}  // namespace troupe::actors

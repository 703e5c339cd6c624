#include <atomic>
#include <string>
#include <utility>

#include "actors/shells.h"

namespace troupe::actors {
namespace {

/// Calls `then` when the actor has ended, whatever ended it.
template <typename Actor, std::invocable<Failure> Then>
void at_end_of(const Actor& actor, const std::string& name, Then then) {
  caf::actor_cast<caf::abstract_actor*>(actor)->attach_functor(
      [name, then = std::move(then)](const caf::error& reason) {
        then(Failure{Errc::internal,
                     name,
                     "ended before its job: got " + caf::to_string(reason),
                     {}});
      });
}

}  // namespace

Company spawn_company(caf::actor_system& system, ObserversSpec observers,
                      CoordinatorSpec coordinator, std::vector<NodeSpec> nodes,
                      const Detours& detours) {
  const auto on_end = [is_reported = std::make_shared<std::atomic<bool>>(false),
                       tell = std::move(observers.on_end)](JobHistory record) {
    if (!is_reported->exchange(true)) {
      tell(std::move(record));
    }
  };
  const std::vector<std::uint64_t> samples = coordinator.options.samples;
  const auto failed_with = [samples](Failure cause) {
    EndJob end;
    end.failure = std::move(cause);
    for (const std::uint64_t index : samples) {
      end.unfinished.push_back({index, SampleStatus::unfinished});
    }
    return end;
  };
  Company company;
  observers.on_end = on_end;
  company.observers = spawn_observers(system, std::move(observers));
  coordinator.observer = company.observers;
  // What stands in between carries messages.
  const auto inbox =
      detours.coordinator ? nullptr : std::make_shared<ResultInbox>();
  coordinator.inbox = inbox;
  coordinator.name_of = detours.name_of;
  company.coordinator = spawn_coordinator(system, std::move(coordinator));
  const CoordinatorActor known =
      detours.coordinator ? detours.coordinator(system, company.coordinator)
                          : company.coordinator;
  for (NodeSpec& node : nodes) {
    const int process = node.process;
    node.coordinator = known;
    node.inbox = inbox;
    company.nodes.push_back(spawn_node(system, std::move(node)));
    at_end_of(company.nodes.back(), "node",
              [process, coordinator = company.coordinator](Failure cause) {
                caf::anon_send(coordinator,
                               CoordinatorEvent(ProcessDown{
                                   process, std::move(cause), true}));
              });
  }
  // Behind its own last words, which say more.
  at_end_of(company.coordinator, "coordinator",
            [failed_with, observer = company.observers](Failure cause) {
              caf::anon_send(observer,
                             ObserverEvent(failed_with(std::move(cause))));
            });
  at_end_of(company.observers, "observers",
            [failed_with, on_end](Failure cause) {
              on_end({failed_with(std::move(cause)), {}});
            });
  return company;
}

void Company::dismiss() {
  for (const NodeActor& node : nodes) {
    caf::anon_send_exit(node, caf::exit_reason::user_shutdown);
  }
  caf::anon_send_exit(coordinator, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(observers, caf::exit_reason::user_shutdown);
  *this = {};
}

}  // namespace troupe::actors

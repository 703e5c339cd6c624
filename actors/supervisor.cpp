#include <map>
#include <utility>

#include "actors/shells.h"

namespace troupe::actors {
namespace {

class SupervisorShell final : public SupervisorActor::base {
 public:
  SupervisorShell(caf::actor_config& config, SupervisorSpec spec)
      : SupervisorActor::base(config),
        policy_(spec.num_children, spec.restart),
        spec_(std::move(spec)) {
    set_down_handler([this](const caf::down_msg& down) {
      guard(this, [&] { child_ended(down); });
    });
  }

  void on_exit() override {
    for (const auto& [address, child] : children_) {
      send_exit(child.actor, caf::exit_reason::user_shutdown);
    }
    children_.clear();
    spec_.start = nullptr;
    spec_.node = nullptr;
  }

 protected:
  behavior_type make_behavior() override {
    return {
        [this](start_atom, int child) {
          guard(this, [&] { feed(StartDue{child}); });
        },
    };
  }

 private:
  struct Child {
    int index = 0;
    std::uint32_t epoch = 0;
    WorkerActor actor;
  };

  void feed(const SupervisorEvent& event) {
    for (SupervisorCommand& command : policy_.on(event, spec_.clock->now())) {
      std::visit([this](auto& c) { perform(c); }, command);
    }
  }

  void child_ended(const caf::down_msg& down) {
    const auto found = children_.find(down.source);
    if (found != children_.end()) {
      const Child child = found->second;
      children_.erase(found);
      feed(
          ChildDown{child.index, child.epoch, cause_of(down.reason, system())});
    }
  }

  void perform(StartChild& start) {
    try {
      WorkerActor worker = spec_.start(start.child, start.epoch);
      monitor(worker);
      children_[worker.address()] = {start.child, start.epoch, worker};
      send(spec_.node, WorkerUp{start.child, start.epoch}, worker);
    } catch (...) {
      feed(ChildDown{start.child, start.epoch, current_failure()});
    }
  }
  void perform(WaitBeforeStart& wait) {
    delayed_send(this, wait.delay, start_atom{}, wait.child);
  }
  void perform(WorkerDown& down) { send(spec_.node, std::move(down)); }

  SupervisorPolicy policy_;
  SupervisorSpec spec_;
  std::map<caf::actor_addr, Child> children_;
};

}  // namespace

Failure cause_of(const caf::error& reason, const caf::actor_system& system) {
  if (reason.category() == caf::atom("troupe")) {
    return {static_cast<Errc>(reason.code()),
            "worker",
            reason.context().match_elements<std::string>()
                ? reason.context().get_as<std::string>(0)
                : std::string("ended"),
            {}};
  }
  return {
      Errc::job_failed, "worker", "ended: got " + system.render(reason), {}};
}

SupervisorActor spawn_supervisor(caf::actor_system& system,
                                 SupervisorSpec spec) {
  return system.spawn<SupervisorShell>(std::move(spec));
}

}  // namespace troupe::actors

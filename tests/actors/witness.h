#pragma once

#include <functional>
#include <utility>

#include "actors/shells.h"

namespace troupe::actors {

/// Stands between a coordinator and its processes (Detours::coordinator):
/// passes everything on, and tells the test of each worker that comes up.
class Witness final : public CoordinatorActor::base {
 public:
  using SeeWorker = std::function<void(const WorkerUp&, const WorkerActor&)>;

  Witness(caf::actor_config& config, CoordinatorActor coordinator,
          SeeWorker see_worker)
      : CoordinatorActor::base(config),
        coordinator_(std::move(coordinator)),
        see_worker_(std::move(see_worker)) {
    monitor(coordinator_);
    set_down_handler([this](const caf::down_msg& down) { quit(down.reason); });
  }
  void on_exit() override { coordinator_ = nullptr; }

  /// For Detours::coordinator.
  static auto between(SeeWorker see_worker) {
    return [see_worker = std::move(see_worker)](caf::actor_system& system,
                                                CoordinatorActor coordinator) {
      return CoordinatorActor(
          system.spawn<Witness>(std::move(coordinator), see_worker));
    };
  }

 protected:
  behavior_type make_behavior() override {
    return {
        [this](int process, const ProcessActor& actor) {
          send(coordinator_, process, actor);
        },
        [this](const ProcessJoined& joined, const ProcessActor& actor) {
          send(coordinator_, joined, actor);
        },
        [this](const WorkerUp& up, const WorkerActor& worker) {
          see_worker_(up, worker);
          send(coordinator_, up, worker);
        },
        [this](const CoordinatorEvent& event) { send(coordinator_, event); },
        [this](const HolderAsked& news) { send(coordinator_, news); },
        [this](halt_atom) { send(coordinator_, halt_atom{}); },
        [](pulse_atom) {},
        [](drain_atom) {},  // there is no inbox
    };
  }

 private:
  CoordinatorActor coordinator_;
  SeeWorker see_worker_;
};

}  // namespace troupe::actors

#include "actors/node.h"

#include <utility>

#include "actors/guard.h"
#include "actors/supervisor.h"
#include "actors/worker.h"

namespace troupe::actors {
namespace {

constexpr auto kPulse = std::chrono::milliseconds(250);

double rate(const WorkerBeat& beat) {
  const double seconds = std::chrono::duration<double>(beat.busy).count();
  return seconds > 0 ? static_cast<double>(beat.rows) / seconds : 0;
}

class NodeShell final : public NodeActor::base {
 public:
  NodeShell(caf::actor_config& config, NodeSpec spec)
      : NodeActor::base(config),
        spec_(std::move(spec)),
        workers_(spec_.workers.size()),
        infos_(workers_.size()) {
    for (std::size_t w = 0; w < infos_.size(); ++w) {
      infos_[w].worker = static_cast<int>(w);
      infos_[w].device = spec_.workers[w].device;
      infos_[w].threads = spec_.workers[w].threads;
    }
  }

  void on_exit() override {
    send_exit(supervisor_, caf::exit_reason::user_shutdown);
    supervisor_ = nullptr;
    workers_.clear();
    spec_.coordinator = nullptr;
  }

 protected:
  behavior_type make_behavior() override {
    start_supervisor();
    delayed_send(this, kPulse, pulse_atom{});
    return {
        [this](const WorkerUp& up, const WorkerActor& worker) {
          worker_up(up, worker);
        },
        [this](const WorkerDown& down) { send(spec_.coordinator, down); },
        [this](const WorkerBeat& beat) { beat_from(beat); },
        [this](const JobFault& fault) { send(spec_.coordinator, fault); },
        [this](pulse_atom) { pulse(); },
        [this](describe_atom) { return NodeInfo{infos_}; },
    };
  }

 private:
  void start_supervisor() {
    const caf::actor_addr here = address();
    auto start = [&system = system(), spec = spec_, here](int worker,
                                                          std::uint32_t epoch) {
      const WorkerPlace& place = spec.workers[static_cast<std::size_t>(worker)];
      return spawn_worker(
          system,
          {worker, epoch, place.threads, place.device, place.options, spec.job,
           spec.make_executor(worker), spec.coordinator, here});
    };
    supervisor_ = spawn_supervisor(
        system(), {static_cast<int>(spec_.workers.size()), spec_.restart,
                   spec_.job->clock, std::move(start), NodeActor(this)});
    send(supervisor_, start_atom{});
  }

  void worker_up(const WorkerUp& up, const WorkerActor& worker) {
    const auto w = static_cast<std::size_t>(up.worker);
    workers_.at(w) = worker;
    infos_[w].epoch = up.epoch;
    send(spec_.coordinator, up, worker);
  }

  void beat_from(const WorkerBeat& beat) {
    const auto w = static_cast<std::size_t>(beat.worker);
    if (infos_.at(w).epoch == beat.epoch) {
      infos_[w].rows_per_second = rate(beat);
    }
    send(spec_.coordinator, beat);
  }

  void pulse() {
    delayed_send(this, kPulse, pulse_atom{});
    for (const WorkerActor& worker : workers_) {
      if (worker) {
        send(worker, pulse_atom{});
      }
    }
  }

  NodeSpec spec_;
  SupervisorActor supervisor_;
  std::vector<WorkerActor> workers_;
  std::vector<NodeInfo::WorkerInfo> infos_;
};

}  // namespace

NodeActor spawn_node(caf::actor_system& system, NodeSpec spec) {
  return system.spawn<NodeShell>(std::move(spec));
}

}  // namespace troupe::actors

#include <utility>

#include "actors/shells.h"

namespace troupe::actors {
namespace {

constexpr auto kNodePulse = std::chrono::milliseconds(250);

std::unique_ptr<Executor> make_executor(const NodeSpec& spec, int worker) {
  if (spec.make_executor) {
    return spec.make_executor(worker);
  }
  return std::make_unique<ThreadExecutor>();
}

class NodeShell final : public NodeActor::base {
 public:
  NodeShell(caf::actor_config& config, NodeSpec spec)
      : NodeActor::base(config),
        spec_(std::move(spec)),
        workers_(spec_.workers.size()) {
    // Nobody would start a worker again.
    set_down_handler([this](const caf::down_msg& down) {
      guarded([&] {
        throw Error(Errc::internal, "supervisor",
                    "ended: got " + system().render(down.reason));
      });
    });
  }

  void on_exit() override {
    spec_.store->give_up();
    send_exit(supervisor_, caf::exit_reason::user_shutdown);
    supervisor_ = nullptr;
    workers_.clear();
    spec_.coordinator = nullptr;
  }

 protected:
  behavior_type make_behavior() override {
    guarded([&] {
      if (spec_.joins) {
        ask_to_join();
      } else {
        send(spec_.coordinator, spec_.process, ProcessActor(this));
        start_supervisor();
      }
      delayed_send(this, kNodePulse, pulse_atom{});
    });
    return {
        [this](const WorkerUp& up, const WorkerActor& worker) {
          guarded([&] {
            workers_.at(static_cast<std::size_t>(up.worker)) = worker;
            send(spec_.coordinator,
                 WorkerUp{spec_.first_worker + up.worker, up.epoch}, worker);
          });
        },
        [this](const WorkerDown& down) {
          guarded([&] {
            WorkerDown report = down;
            report.worker += spec_.first_worker;
            send(spec_.coordinator, CoordinatorEvent(std::move(report)));
          });
        },
        [this](const ProcessMessage& message) {
          guarded([&] {
            std::visit([this](const auto& one) { handle(one); }, message);
          });
        },
        [this](pulse_atom) { guarded([&] { pulse(); }); },
    };
  }

 private:
  template <std::invocable Body>
  void guarded(const Body& body) {
    guard(this, body, [this](Failure cause) {
      send(spec_.coordinator, CoordinatorEvent(ProcessDown{
                                  spec_.process, std::move(cause), true}));
    });
  }

  void handle(const FreeValues& free) {
    for (const FreedSlots& freed : free.frees) {
      spec_.store->free(freed);
    }
  }
  void handle(const DropRuns& drop) {
    if (drop.last_run) {
      spec_.store->close(drop.sample_index, *drop.last_run);
    } else {
      spec_.store->close(drop.sample_index);
    }
    for (const WorkerActor& worker : workers_) {
      if (worker && !drop.all_answered) {
        send(worker, drop);
      }
    }
  }
  void handle(const AdmitProcess& admit) {
    if (!supervisor_) {
      spec_.first_worker = admit.first_worker;
      start_supervisor();
    }
  }
  void handle(const RefuseProcess& refuse) { quit(to_caf_error(refuse.cause)); }

  void ask_to_join() {
    send(spec_.coordinator,
         ProcessJoined{spec_.process, spec_.workers, spec_.value_budget,
                       spec_.means},
         ProcessActor(this));
  }

  void start_supervisor() {
    auto start = [&system = system(), spec = spec_](int child,
                                                    std::uint32_t epoch) {
      const int worker = spec.first_worker + child;
      return spawn_worker(
          system,
          {worker, epoch, spec.workers[static_cast<std::size_t>(child)],
           spec.job, spec.store, spec.process, make_executor(spec, worker),
           spec.coordinator, spec.inbox, spec.joiner});
    };
    supervisor_ = spawn_supervisor(
        system(), {static_cast<int>(spec_.workers.size()), spec_.restart,
                   spec_.job->clock, std::move(start), NodeActor(this)});
    monitor(supervisor_);
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      send(supervisor_, start_atom{}, static_cast<int>(w));
    }
  }

  void pulse() {
    delayed_send(this, kNodePulse, pulse_atom{});
    for (const WorkerActor& worker : workers_) {
      if (worker) {
        send(worker, pulse_atom{});
      }
    }
  }

  NodeSpec spec_;
  SupervisorActor supervisor_;
  std::vector<WorkerActor> workers_;
};

}  // namespace

NodeActor spawn_node(caf::actor_system& system, NodeSpec spec) {
  return system.spawn<NodeShell>(std::move(spec));
}

}  // namespace troupe::actors

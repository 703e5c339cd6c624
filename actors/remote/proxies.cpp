#include "actors/remote/proxies.h"

#include <utility>

#include "actors/shells.h"

namespace troupe::actors {
namespace {

/// Bytes that may wait for a link before beats are left out.
constexpr std::size_t kCreditOfBeats = std::size_t{4} << 20U;

template <typename Base>
class Proxy : public Base {
 public:
  Proxy(caf::actor_config& config, std::shared_ptr<Outbox> outbox)
      : Base(config), outbox_(std::move(outbox)) {}

 protected:
  template <typename News>
  void carry(News news) {
    guard(this,
          [&] { outbox_->send(wire::encode(wire::News(std::move(news)))); });
  }

  std::shared_ptr<Outbox> outbox_;
};

class WorkerProxy final : public Proxy<WorkerActor::base> {
 public:
  WorkerProxy(caf::actor_config& config, std::shared_ptr<Outbox> outbox,
              const WorkerUp& of)
      : Proxy(config, std::move(outbox)) {
    set_exit_handler([this, of](const caf::exit_msg& exit) {
      // Without a cause the link has gone: there is nobody to tell.
      if (exit.reason != caf::exit_reason::user_shutdown) {
        carry(EndWorker{of.worker, of.epoch, cause_of(exit.reason, system())});
      }
      quit(exit.reason);
    });
  }

 protected:
  behavior_type make_behavior() override {
    return {
        [this](WorkerMessage& message) {
          std::visit([this](auto& one) { carry(std::move(one)); }, message);
        },
        [](const DropRuns&) {},  // its process tells it
        [](const WorkerFault&) {},
        [](halt_atom) {},  // JobOver says so to its process
        [](pulse_atom) {},
    };
  }
};

class ProcessProxy final : public Proxy<ProcessActor::base> {
 public:
  ProcessProxy(caf::actor_config& config, ProcessProxySpec spec)
      : Proxy(config, spec.outbox), spec_(std::move(spec)) {}
  void on_exit() override { spec_.on_end(); }

 protected:
  behavior_type make_behavior() override {
    return {
        [this](ProcessMessage& message) {
          guard(this, [&] { see(message); });
          std::visit([this](auto& one) { carry(std::move(one)); }, message);
        },
    };
  }

 private:
  void see(const ProcessMessage& message) {
    if (const auto* admit = std::get_if<AdmitProcess>(&message)) {
      spec_.on_answer(*admit);
    } else if (const auto* refuse = std::get_if<RefuseProcess>(&message)) {
      spec_.on_refusal(refuse->cause);
    }
  }

  ProcessProxySpec spec_;
};

class CoordinatorProxy final : public Proxy<CoordinatorActor::base> {
 public:
  CoordinatorProxy(caf::actor_config& config, CoordinatorProxySpec spec)
      : Proxy(config, spec.outbox), spec_(std::move(spec)) {}

 protected:
  behavior_type make_behavior() override {
    return {
        [](int, const ProcessActor&) {},  // processes of a link ask to join
        [this](const ProcessJoined& joined, const ProcessActor& actor) {
          guard(this, [&] { spec_.on_process(actor); });
          carry(Join{spec_.classes, joined});
        },
        [this](const WorkerUp& up, const WorkerActor& worker) {
          guard(this, [&] { spec_.on_worker(up, worker); });
          carry(up);
        },
        [this](CoordinatorEvent& event) {
          std::visit([this](auto& one) { handle(one); }, event);
        },
        [](const HolderAsked&) {},  // the listener asks
        [](halt_atom) {},
        [](pulse_atom) {},
        [](drain_atom) {},  // there is no inbox
    };
  }

 private:
  template <AlternativeOf<ProcessNews> News>
  void handle(News& news) {
    // Results are signs of life, too.
    if (!std::same_as<News, WorkerBeat> || !is_behind()) {
      carry(std::move(news));
    }
  }
  void handle(const JobFault& fault) { spec_.on_fault(fault.cause); }
  void handle(const ProcessDown& down) { spec_.on_fault(down.cause); }
  /// The coordinator's own process says the rest.
  template <typename Other>
  void handle(const Other& /*event*/) {}

  /// The link is slower than the workers. What waits is bounded by the grants
  /// that the coordinator gives before it has their results, if no beats are
  /// added.
  [[nodiscard]] bool is_behind() const {
    return outbox_->num_waiting() > kCreditOfBeats;
  }

  CoordinatorProxySpec spec_;
};

/// A thread that has spawned an actor keeps the system's logger until it ends,
/// and the system waits for its logger: a link's thread outlives the system.
void forget_logger() { caf::logger::set_current_actor_system(nullptr); }

}  // namespace

WorkerActor spawn_worker_proxy(caf::actor_system& system,
                               std::shared_ptr<Outbox> outbox,
                               const WorkerUp& of) {
  WorkerActor proxy = system.spawn<WorkerProxy>(std::move(outbox), of);
  forget_logger();
  return proxy;
}

ProcessActor spawn_process_proxy(caf::actor_system& system,
                                 ProcessProxySpec spec) {
  ProcessActor proxy = system.spawn<ProcessProxy>(std::move(spec));
  forget_logger();
  return proxy;
}

CoordinatorActor spawn_coordinator_proxy(caf::actor_system& system,
                                         CoordinatorProxySpec spec) {
  return system.spawn<CoordinatorProxy>(std::move(spec));
}

}  // namespace troupe::actors

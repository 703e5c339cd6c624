#include <utility>

#include "actors/shells.h"

namespace troupe::actors {
namespace {

class WorkerShell final : public WorkerActor::base {
 public:
  WorkerShell(caf::actor_config& config, std::shared_ptr<WorkerSpec> spec,
              std::shared_ptr<ExecContext> ctx)
      : WorkerActor::base(config),
        spec_(std::move(spec)),
        policy_(spec_->worker, spec_->epoch),
        ctx_(std::move(ctx)) {}

  // Its executor waits for the block that runs and drops the rest. That may
  // take long, so no thread of the actors waits with it.
  void on_exit() override {
    ctx_->request_stop();
    spec_->coordinator = nullptr;
    std::shared_ptr<Executor> executor = std::move(spec_->executor);
    if (spec_->joiner != nullptr) {
      spec_->joiner->post([executor = std::move(executor)] {});
    }
  }

 protected:
  behavior_type make_behavior() override {
    return {
        [this](const Grant& grant) { feed(grant); },
        [this](const InputsFetched& fetched) { feed(fetched); },
        [this](const WorkDone& work) { feed(work); },
        [this](halt_atom) { feed(StopWork{}); },
        [this](pulse_atom) { feed(BeatAsked{ctx_->ticks()}); },
    };
  }

 private:
  void feed(const WorkerEvent& event) {
    guard(this, [&] {
      for (WorkerCommand& command : policy_.on(event)) {
        std::visit([this](auto& c) { perform(c); }, command);
      }
    });
  }

  void perform(Grant& granted) {
    // A job ends before its executor does.
    spec_->executor->post([self = WorkerActor(this), ctx = ctx_,
                           job = spec_->job, store = spec_->store,
                           grant = std::move(granted),
                           executor = spec_->executor.get()] {
      const auto work = std::make_shared<Execution>(grant, *ctx, *job, *store);
      const auto answer = [self, ctx, job, store, work] {
        caf::anon_send(self, WorkDone{work->finish()});
      };
      if (work->is_done()) {
        answer();
      } else {
        executor->post_when([work] { return work->is_done(); }, answer);
      }
    });
  }
  void perform(FreeOwn& free) {
    for (const FreedSlots& freed : free.frees) {
      spec_->store->free(freed);
    }
  }
  void perform(FetchInputs& fetch) {
    spec_->store->fetch(
        fetch.values, [self = WorkerActor(this),
                       grant = fetch.grant](std::vector<RemoteValue> gone) {
          caf::anon_send(self, InputsFetched{grant, std::move(gone)});
        });
  }
  void perform(GrantResult& result) {
    send(spec_->coordinator, std::move(result));
  }
  void perform(WorkerBeat& beat) { send(spec_->coordinator, beat); }
  void perform(InterruptWork&) { ctx_->request_stop(); }

  std::shared_ptr<WorkerSpec> spec_;
  WorkerPolicy policy_;
  std::shared_ptr<ExecContext> ctx_;
};

}  // namespace

WorkerActor spawn_worker(caf::actor_system& system, WorkerSpec spec) {
  // What can throw happens before there is an actor.
  const WorkerPlace& place = spec.place;
  auto ctx =
      std::make_shared<ExecContext>(place.threads, place.device, place.options);
  return system.spawn<WorkerShell>(
      std::make_shared<WorkerSpec>(std::move(spec)), std::move(ctx));
}

}  // namespace troupe::actors

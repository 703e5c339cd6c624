#include <utility>

#include "actors/device_team.h"
#include "actors/firing.h"
#include "actors/shells.h"
#include "actors/thread_team.h"

namespace troupe::actors {
namespace {

class WorkerShell final : public WorkerActor::base {
 public:
  WorkerShell(caf::actor_config& config, WorkerSpec& spec,
              std::shared_ptr<ExecContext> ctx)
      : WorkerActor::base(config),
        ctx_(std::move(ctx)),
        executor_(std::move(spec.executor)),
        joiner_(spec.joiner) {
    const CoordinatorActor coordinator = std::move(spec.coordinator);
    firing_ = std::make_shared<Firing>(FiringSpec{
        .worker = spec.worker,
        .epoch = spec.epoch,
        .ctx = ctx_,
        .job = std::move(spec.job),
        .store = std::move(spec.store),
        .process = spec.process,
        .executor = executor_.get(),
        .answer =
            [coordinator, inbox = std::move(spec.inbox)](GrantResult result) {
              if (!inbox) {
                caf::anon_send(coordinator,
                               CoordinatorEvent(std::move(result)));
              } else if (inbox->push(std::move(result))) {
                caf::anon_send(coordinator, drain_atom{});
              }
            },
        .beat =
            [coordinator](const WorkerBeat& beat) {
              caf::anon_send(coordinator, CoordinatorEvent(beat));
            },
        .fail =
            [self = caf::actor_addr(address())](Failure cause) {
              if (const auto worker = caf::actor_cast<WorkerActor>(self)) {
                caf::anon_send(worker, WorkerFault{std::move(cause)});
              }
            }});
  }

  // Its executor waits for the block that runs and drops the rest. That may
  // take long, so no thread of the actors waits with it.
  void on_exit() override {
    firing_->close();
    firing_ = nullptr;
    ctx_->request_stop();
    if (joiner_ != nullptr) {
      joiner_->post([executor = std::shared_ptr(std::move(executor_))] {});
    }
  }

 protected:
  behavior_type make_behavior() override {
    return {
        [this](WorkerMessage& message) {
          std::visit([this](auto& one) { firing_->on(std::move(one)); },
                     message);
        },
        [this](const DropRuns& drop) { firing_->on(drop); },
        [this](const WorkerFault& fault) {
          guard(this, [&] { quit(to_caf_error(fault.cause)); });
        },
        [this](halt_atom) { firing_->on(StopWork{}); },
        [this](pulse_atom) { firing_->on(BeatAsked{ctx_->ticks()}); },
    };
  }

 private:
  std::shared_ptr<ExecContext> ctx_;
  std::unique_ptr<Executor> executor_;
  Executor* joiner_;
  std::shared_ptr<Firing> firing_;
};

}  // namespace

WorkerActor spawn_worker(caf::actor_system& system, WorkerSpec spec) {
  // What can throw happens before there is an actor.
  const WorkerTraits& traits = spec.traits;
  auto ctx = std::make_shared<ExecContext>(traits.threads, traits.device,
                                           traits.options);
  if (!traits.others.empty()) {
    ctx->set_team(std::make_shared<DeviceTeam>(
        *ctx, traits.others, traits.options, traits.plan, traits.exchange));
  } else if (traits.shards > 1) {
    ctx->set_team(
        std::make_shared<ThreadTeam>(*ctx, traits.shards, traits.plan));
  }
  return system.spawn<WorkerShell>(std::ref(spec), std::move(ctx));
}

}  // namespace troupe::actors

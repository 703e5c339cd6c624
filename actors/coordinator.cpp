#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/cut_keeper.h"
#include "actors/shells.h"
#include "kernels/core/context.h"
#include "kernels/core/log.h"
#include "samplers/solver.h"

namespace troupe::actors {
namespace {

constexpr auto kPulse = std::chrono::milliseconds(250);

/// What observers get of the values: the state's latents, or the clean latents
/// that the network's output implies. Empty for values of another kind or
/// shape, which a peer can send, and out of memory.
Tensor latents_of(const CutKeeper::Values& values,
                  const FetchIntermediate& fetch, const JobContext& job) {
  try {
    const Shape shape = job.parts.evaluator->latent_shape();
    const auto checked = [&](const Tensor& tensor) -> const Tensor& {
      require(tensor.dtype() == DType::f32 && tensor.shape() == shape,
              Errc::corrupt_file, "value", "latents of another shape or dtype");
      return tensor;
    };
    const Tensor& latents =
        checked(std::get<samplers::SolverState>(values.at(0)).latents);
    if (values.size() == 1) {
      return latents;
    }
    ExecContext host;
    return samplers::denoised(host, *job.parts.schedule, fetch.call, latents,
                              checked(std::get<Tensor>(values.at(1))));
  } catch (...) {
    log_lost_value(fetch.values.front().name.slot);
    return {};
  }
}

/// Receipts may outlive the coordinator, and the actors' system too.
class ReceiptBook {
 public:
  void open(const CoordinatorActor& coordinator) {
    const std::lock_guard lock(mutex_);
    coordinator_ = caf::actor_cast<caf::actor_addr>(coordinator);
  }
  void close() {
    const std::lock_guard lock(mutex_);
    coordinator_ = nullptr;
  }
  void release(std::uint64_t sample_index) noexcept {
    const std::lock_guard lock(mutex_);
    if (const auto to = caf::actor_cast<CoordinatorActor>(coordinator_)) {
      caf::anon_send(to, CoordinatorEvent(OutcomeReleased{sample_index}));
    }
  }

 private:
  // Letting go of the last handle closes the book.
  std::recursive_mutex mutex_;
  caf::actor_addr coordinator_;
};

class CoordinatorShell final : public CoordinatorActor::base {
 public:
  CoordinatorShell(caf::actor_config& config,
                   std::shared_ptr<CoordinatorPolicy> policy,
                   CoordinatorSpec spec)
      : CoordinatorActor::base(config),
        policy_(std::move(policy)),
        spec_(std::move(spec)),
        workers_(spec_.options.workers.size()) {
    if (!spec_.inbox) {
      spec_.inbox = std::make_shared<ResultInbox>();
    }
  }
  ~CoordinatorShell() override { receipts_->close(); }

  void on_exit() override {
    receipts_->close();
    workers_.clear();
    processes_.clear();
    joiner_ = nullptr;
    // Its thread may wait for a device.
    if (cuts_ && spec_.joiner != nullptr) {
      spec_.joiner->post([cuts = std::exchange(cuts_, nullptr)] {});
    }
    spec_.observer = nullptr;
  }

 protected:
  behavior_type make_behavior() override {
    guarded([&] { delayed_send(this, kPulse, pulse_atom{}); });
    receipts_->open(this);
    return {
        [this](int process, const ProcessActor& actor) {
          guarded([&] {
            if (!ended_processes_.contains(process)) {
              processes_[process] = actor;
            }
          });
        },
        [this](const ProcessJoined& joined, const ProcessActor& actor) {
          guarded([&] {
            joiner_ = actor;
            feed(joined);
            // When the job is over, nobody answers.
            if (const ProcessActor late = std::exchange(joiner_, nullptr)) {
              send_exit(late, caf::exit_reason::user_shutdown);
            }
          });
        },
        [this](const WorkerUp& up, const WorkerActor& worker) {
          guarded([&] {
            drain();
            at(up.worker) = worker;
            feed(up);
          });
        },
        [this](CoordinatorEvent& event) {
          guarded([&] {
            if (auto* result = std::get_if<GrantResult>(&event)) {
              if (spec_.inbox->push(std::move(*result))) {
                send(this, drain_atom{});
              }
              return;
            }
            if (const auto* down = std::get_if<ProcessDown>(&event)) {
              drain();
              ended_processes_.insert(down->process);
              processes_.erase(down->process);
            }
            feed(event);
          });
        },
        [this](drain_atom) { guarded([&] { drain(); }); },
        [this](const HolderAsked& question) {
          guarded([&] {
            drain();
            question.then(policy_->holder_of(question.name, question.besides));
          });
        },
        [this](halt_atom) { guarded([&] { feed(StopRequested{}); }); },
        [this](pulse_atom) {
          guarded([&] {
            delayed_send(this, kPulse, pulse_atom{});
            feed(TimeTick{});
          });
        },
    };
  }

 private:
  [[nodiscard]] WorkerActor& at(int worker) {
    return workers_.at(static_cast<std::size_t>(worker));
  }

  /// Whoever waits for the job must hear that there is no coordinator.
  template <std::invocable Body>
  void guarded(const Body& body) {
    guard(this, body, [this](Failure cause) {
      EndJob end;
      end.failure = std::move(cause);
      perform(end);
    });
  }

  /// Results that have come together are handled in one go, and before any
  /// other message: what goes to one worker then goes in few grants.
  void drain() {
    spec_.inbox->take(results_);
    if (results_.empty()) {
      return;
    }
    for (GrantResult& result : results_) {
      take(std::move(result));
    }
    give_grants();
  }

  void feed(const CoordinatorEvent& event) {
    drain();
    take(event);
    give_grants();
  }

  void take(const CoordinatorEvent& event) {
    in_hand_ = &event;
    policy_->take(event, spec_.job->clock->now(), commands_);
    perform_all();
  }

  void give_grants() {
    policy_->give_grants(commands_);
    perform_all();
  }

  void report(ObserverEvent event) { send(spec_.observer, std::move(event)); }

  void perform_all() {
    for (CoordinatorCommand& command : commands_) {
      std::visit([this](auto& c) { perform(c); }, command);
    }
  }

  template <AlternativeOf<WorkerMessage> Message>
  void perform(Message& message) {
    send(at(message.worker), WorkerMessage(std::move(message)));
  }
  /// A process that has ended gets no messages.
  template <AlternativeOf<ProcessMessage> Message>
  void perform(Message& message) {
    const auto found = processes_.find(message.process);
    if (found != processes_.end()) {
      send(found->second, ProcessMessage(std::move(message)));
    }
  }
  void perform(AdmitProcess& admit) {
    workers_.resize(
        static_cast<std::size_t>(admit.first_worker + admit.num_workers));
    processes_[admit.process] = joiner_;
    send(std::exchange(joiner_, nullptr), ProcessMessage(admit));
  }
  void perform(RefuseProcess& refuse) {
    send(std::exchange(joiner_, nullptr), ProcessMessage(std::move(refuse)));
  }
  void perform(ReleaseProcess& release) {
    const auto found = processes_.find(release.process);
    if (found != processes_.end()) {
      send_exit(found->second, caf::exit_reason::user_shutdown);
    }
  }
  void perform(FetchValues& fetch) {
    spec_.store->fetch(
        fetch.values,
        [self = CoordinatorActor(this), index = fetch.sample_index,
         run = fetch.run, number = fetch.number,
         is_rescue = fetch.is_rescue](std::vector<RemoteValue> gone) {
          caf::anon_send(self,
                         CoordinatorEvent(ValuesFetched{
                             index, run, number, std::move(gone), is_rescue}));
        });
  }
  [[nodiscard]] CutKeeper& keeper() {
    if (!cuts_) {
      cuts_ = std::make_shared<CutKeeper>(spec_.store);
    }
    return *cuts_;
  }
  void perform(FetchIntermediate& fetch) {
    keeper().copy(fetch.values, [self = CoordinatorActor(this), job = spec_.job,
                                 fetch](const CutKeeper::Values& values,
                                        std::vector<RemoteValue> gone) {
      IntermediateFetched news{fetch.sample_index, fetch.run, fetch.number};
      if (gone.empty()) {
        news.latents = latents_of(values, fetch, *job);
      }
      if (news.latents.empty()) {
        news.gone = gone.empty() ? fetch.values : std::move(gone);
      }
      caf::anon_send(self, CoordinatorEvent(std::move(news)));
    });
  }
  void perform(ShowIntermediate& show) {
    const Tensor& latents = std::get<IntermediateFetched>(*in_hand_).latents;
    if (show.is_preview) {
      report(Preview{show.sample_index, show.call, latents});
    } else {
      report(TrajectoryPoint{show.sample_index, show.call, latents});
    }
  }
  void perform(TakeCut& take) {
    keeper().take(take, [self = CoordinatorActor(this),
                         take_of = take.sample_index, run = take.run,
                         number = take.number](std::vector<RemoteValue> gone) {
      caf::anon_send(self, CoordinatorEvent(CutTaken{take_of, run, number,
                                                     std::move(gone)}));
    });
  }
  void perform(RestoreCut& restore) {
    require(cuts_ != nullptr, Errc::internal, "coordinator",
            "a sample goes back to a cut that nobody took");
    cuts_->restore(restore);
  }
  void perform(ShowPass& show) {
    if (spec_.trace) {
      const auto& result = std::get<GrantResult>(*in_hand_);
      report(TracePass{result.span, result.made, result.reads,
                       std::move(show.scalars)});
    }
  }
  void perform(EndSample& end) {
    SampleOutcome outcome{std::move(end.report), {}, {}, {}};
    const std::uint64_t index = outcome.report.sample_index;
    if (outcome.report.status == SampleStatus::done) {
      const auto slots = spec_.store->open(index, end.run);
      outcome.latents =
          std::get<samplers::SolverState>(slots->get(end.result)).latents;
      if (spec_.options.decode) {
        outcome.pixels = std::get<Tensor>(slots->get(kPixelsSlot));
      }
      if (spec_.options.outcome_bytes > 0) {
        outcome.receipt = {receipts_.get(),
                           [book = receipts_, index](void* /*book*/) {
                             book->release(index);
                           }};
      }
    }
    if (cuts_) {
      cuts_->drop(index);
    }
    report(std::move(outcome));
  }
  void perform(JobProgress& progress) { report(progress); }
  void perform(FenceWorker& fence) {
    // It ends at its next block, and the supervisor starts it again: one that
    // was only halted would be missing for the rest of the job.
    send_exit(at(fence.worker),
              to_caf_error({Errc::job_failed, "worker", fence.why, {}}));
  }
  void perform(LinkWeighed& weighed) {
    const std::string process =
        spec_.name_of ? spec_.name_of(weighed.process)
                      : "process " + std::to_string(weighed.process);
    log_message(
        weighed.is_left_out ? LogLevel::warning : LogLevel::info,
        "worker " + std::to_string(weighed.worker) + " of " + process +
            (weighed.is_left_out ? " is left out: " : " takes part again: ") +
            weighed.why);
  }
  void perform(RetireWorker& retire) {
    if (const WorkerActor& worker = at(retire.worker)) {
      // The supervisor does not start a worker again after an exit with the
      // code device_lost. So every retired worker gets this code.
      send_exit(worker, to_caf_error({Errc::device_lost,
                                      retire.cause.place,
                                      retire.cause.message,
                                      {}}));
    }
  }
  void perform(EndJob& end) {
    for (const WorkerActor& worker : workers_) {
      if (worker) {
        send(worker, halt_atom{});
      }
    }
    report(std::move(end));
  }

  std::shared_ptr<CoordinatorPolicy> policy_;
  CoordinatorSpec spec_;
  std::shared_ptr<ReceiptBook> receipts_ = std::make_shared<ReceiptBook>();
  std::vector<WorkerActor> workers_;
  std::map<int, ProcessActor> processes_;
  std::set<int> ended_processes_;
  ProcessActor joiner_;                       // while its question is handled
  std::shared_ptr<CutKeeper> cuts_;           // from the first one on
  std::vector<GrantResult> results_;          // of the inbox
  std::vector<CoordinatorCommand> commands_;  // of the event in hand
  /// Whose commands are performed.
  const CoordinatorEvent* in_hand_ = nullptr;
};

}  // namespace

CoordinatorActor spawn_coordinator(caf::actor_system& system,
                                   CoordinatorSpec spec) {
  // What can throw happens before there is an actor.
  auto policy = std::make_shared<CoordinatorPolicy>(spec.options);
  return system.spawn<CoordinatorShell>(std::move(policy), std::move(spec));
}

}  // namespace troupe::actors

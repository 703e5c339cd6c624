#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "actors/coordinator_policy.h"
#include "actors/emulation/emulate.h"
#include "actors/event_queue.h"
#include "actors/random.h"
#include "actors/value_store.h"
#include "actors/worker_core.h"
#include "actors/worker_policy.h"

namespace troupe::actors::emulation {

/// The policies of a company in virtual time, and what their shells do
/// otherwise: see `emulate`. A pass computes when it begins; its outputs are
/// written when it ends.
class Company {
 public:
  Company(const JobSpec& spec, const Machine& machine, int threads);
  /// Gives up open questions for values, which keep the stores of the asking
  /// processes alive.
  ~Company();
  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;
  /// Call once.
  [[nodiscard]] EmulatedJob run();

 private:
  using Happening = std::function<void()>;

  class VirtualClock final : public Clock {
   public:
    explicit VirtualClock(const EventQueue<Happening>& queue) : queue_(queue) {}
    [[nodiscard]] TimePoint now() const override { return queue_.now(); }

   private:
    const EventQueue<Happening>& queue_;
  };
  /// The channel by which a process asks other processes for values.
  class Asker final : public ValueChannel {
   public:
    Asker(Company& company, std::size_t process)
        : company_(company), process_(process) {}
    void get(int holder, const ValueName& name, Taker taker) override {
      company_.ask(process_, static_cast<std::size_t>(holder), name,
                   std::move(taker));
    }

   private:
    Company& company_;
    std::size_t process_;
  };
  struct Worker {
    WorkerPolicy policy;
    std::unique_ptr<Execution> pass;  ///< that runs
    std::uint64_t ticks = 0;
  };

  // Commands of the coordinator.
  void perform(Grant& grant);
  void perform(Redirect& redirect);
  void perform(Recall& recall);
  void perform(FreeValues& free);
  void perform(DropRuns& drop);
  void perform(FetchValues& fetch);
  void perform(ShowResult& /*show*/) {}
  void perform(EndSample& end);
  void perform(JobProgress& progress);
  void perform(EndJob& end) { end_ = std::move(end); }
  /// Commands of a job with losses, which emulated jobs do not have.
  template <typename Command>
  void perform(Command& /*command*/) {
    throw Error(Errc::internal, "emulation", "an emulated device was given up");
  }
  // Of a worker.
  void perform(std::size_t worker, FreeOwn& free);
  void perform(std::size_t worker, FetchInputs& fetch);
  void perform(std::size_t worker, GrantResult& result);
  void perform(std::size_t /*worker*/, InterruptWork& /*interrupt*/) {}
  void perform(std::size_t /*worker*/, WorkerBeat& /*beat*/) {}

  void tell_coordinator(std::size_t from, CoordinatorEvent event);
  void feed_coordinator(const CoordinatorEvent& event);
  void tell(std::size_t process, Happening happening);
  void feed(std::size_t worker, WorkerEvent event);
  void start_pass(std::size_t worker);
  void end_pass(std::size_t worker);
  void record(const Grant& pass, double slowness);
  void ask(std::size_t asker, std::size_t holder, const ValueName& name,
           ValueChannel::Taker taker);
  void pulse();

  [[nodiscard]] TimePoint now() const { return queue_.now(); }
  /// Virtual time that a message between two processes takes.
  [[nodiscard]] Duration way(std::size_t from, std::size_t to) const {
    return from == to ? Duration{} : machine_.latency();
  }

  const JobSpec& spec_;
  const Machine& machine_;
  EventQueue<Happening> queue_;
  ExecContext ctx_;
  JobContext job_;
  Links links_;
  Random jitter_;
  std::vector<std::shared_ptr<ValueStore>> stores_;  ///< by process
  CoordinatorPolicy coordinator_;
  TimePoint coordinator_free_{};
  std::vector<Worker> workers_;
  GraphRecorder recorder_;
  HostReader reader_;
  std::optional<EndJob> end_;
  int idle_pulses_ = 0;
  EmulatedJob job_done_;
};

}  // namespace troupe::actors::emulation

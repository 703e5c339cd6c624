#include "actors/emulation/emulate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "actors/coordinator_policy.h"
#include "actors/event_queue.h"
#include "actors/parcels.h"
#include "actors/random.h"
#include "actors/value_store.h"
#include "actors/worker_core.h"
#include "actors/worker_policy.h"

namespace troupe::actors::emulation {
namespace {

/// As the coordinator's shell.
constexpr Duration kPulse = std::chrono::milliseconds(250);
/// While it waits, nothing is on its way and nothing runs: it would wait for
/// ever.
constexpr int kMostIdlePulses = 8;

std::uint64_t bytes_of(const Parcel& parcel) {
  std::uint64_t bytes = 0;
  for (const NamedTensor& one : parcel) {
    bytes += one.tensor.num_bytes();
  }
  return bytes;
}

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
    TimePoint ends;                   ///< the pass, at the present pace
    bool is_busy = false;             ///< the pass goes through the network
    bool is_warm = false;             ///< an earlier one did
    bool is_posted = false;           ///< it is about to take a pass
    std::uint64_t ticks = 0;
  };

  // Commands of the coordinator.
  template <AlternativeOf<WorkerMessage> Message>
  void perform(Message& message) {
    const auto worker = static_cast<std::size_t>(message.worker);
    tell(worker, [this, worker, message = std::move(message)] {
      feed(worker, message);
    });
  }
  void perform(FreeValues& free);
  void perform(DropRuns& drop);
  void perform(FetchValues& fetch);
  // Nobody looks at a modelled job.
  void perform(FetchIntermediate& /*fetch*/) {}
  void perform(ShowIntermediate& /*show*/) {}
  void perform(ShowPass& show);
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
  void tell(std::size_t to, Happening happening);
  [[nodiscard]] ValueStore& store_of(std::size_t worker) {
    return *stores_[machine_.process_of(worker)];
  }
  void feed(std::size_t worker, WorkerEvent event);
  void post_pass(std::size_t worker);
  void start_pass(std::size_t worker);
  void end_pass(std::size_t worker);
  void end_at(std::size_t worker, TimePoint when);
  void adapt_pace(int more_busy);
  [[nodiscard]] double part_that_ran(const samplers::Task& first, int rows,
                                     std::uint64_t ticks) const;
  void record(const Grant& pass, double slowness);
  void ask(std::size_t asker, std::size_t holder, const ValueName& name,
           ValueChannel::Taker taker);
  void pulse();

  [[nodiscard]] TimePoint now() const { return queue_.now(); }
  /// Virtual time that a message between two processes takes.
  [[nodiscard]] Duration way(std::size_t from, std::size_t to) const {
    return from == to && !machine_.shares_memory ? Duration{}
                                                 : machine_.latency();
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
  const CoordinatorEvent* in_hand_ = nullptr;  ///< that it handles
  int num_busy_ = 0;                           ///< workers
  double pace_ = 1;                            ///< of their passes
  std::vector<Worker> workers_;
  GraphRecorder recorder_;
  HostReader reader_;
  std::optional<EndJob> end_;
  int idle_pulses_ = 0;
  EmulatedJob job_done_;
};

}  // namespace

Company::Company(const JobSpec& spec, const Machine& machine, int threads)
    : spec_(spec),
      machine_(machine),
      ctx_(threads),
      job_(spec.parts, std::make_shared<VirtualClock>(queue_), spec.trace),
      links_(machine),
      jitter_(machine.seed),
      coordinator_(coordinator_options(spec)) {
  for (std::size_t w = 0; w < spec.workers.size(); ++w) {
    if (machine.process_of(w) == stores_.size()) {
      stores_.push_back(make_store(job_, std::make_shared<Asker>(*this, w)));
    }
    workers_.push_back({.policy = WorkerPolicy(static_cast<int>(w), 1,
                                               spec.workers[w].process)});
  }
}

Company::~Company() {
  for (const auto& store : stores_) {
    store->give_up();
  }
}

EmulatedJob Company::run() {
  const std::stop_callback halt(spec_.stop, [this] { ctx_.request_stop(); });
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    tell_coordinator(w, WorkerUp{static_cast<int>(w), 1});
  }
  queue_.add(now() + kPulse, [this] { pulse(); });
  while (!end_) {
    if (spec_.stop.stop_requested()) {
      feed_coordinator(StopRequested{});
    } else {
      queue_.take()();
    }
  }
  JobResult& result = job_done_.result;
  std::ranges::move(end_->unfinished, std::back_inserter(result.samples));
  std::ranges::sort(result.samples, {}, &SampleReport::sample_index);
  result.stopped = end_->stopped;
  result.failure = std::move(end_->failure);
  result.nfe = end_->progress.nfe;
  result.rounds = end_->progress.rounds;
  result.reused = end_->progress.reused;
  result.compute_seconds = to_seconds(end_->busy);
  result.wall_seconds = to_seconds(now() - TimePoint{});
  const samplers::MethodOptions& method = spec_.parts.method;
  // Of two unequal devices either may compute a branch of guidance.
  const auto [slowest, fastest] = std::ranges::minmax(machine_.speeds);
  const bool shares_branches =
      method.kind->splits_guidance &&
      fastest >= CoordinatorPolicy::kClearlySlower * slowest;
  job_done_.bounds = bounds_of(
      recorder_.take(), machine_,
      {samplers::num_parts(method), method.kind->spreads || shares_branches},
      rows_per_forward(spec_.workers.front(), method), job_done_.bytes_sent);
  return std::move(job_done_);
}

// ---- the coordinator and its messages

void Company::tell_coordinator(std::size_t from, CoordinatorEvent event) {
  queue_.add(now() + way(from, kHomeProcess), [this, event = std::move(event)] {
    coordinator_free_ =
        std::max(coordinator_free_, now()) + machine_.coordinator_event;
    queue_.add(coordinator_free_, [this, event] { feed_coordinator(event); });
  });
}

void Company::feed_coordinator(const CoordinatorEvent& event) {
  ++job_done_.num_events;
  in_hand_ = &event;
  for (CoordinatorCommand& command : coordinator_.on(event, now())) {
    std::visit([this](auto& c) { perform(c); }, command);
  }
}

void Company::tell(std::size_t to, Happening happening) {
  queue_.add(now() + way(kHomeProcess, to), std::move(happening));
}

void Company::pulse() {
  idle_pulses_ = queue_.empty() ? idle_pulses_ + 1 : 0;
  require(idle_pulses_ < kMostIdlePulses, Errc::internal, "emulation",
          "the coordinator waits, and nobody works");
  queue_.add(now() + kPulse, [this] { pulse(); });
  tell_coordinator(kHomeProcess, TimeTick{});
}

void Company::perform(FreeValues& free) {
  const auto process = static_cast<std::size_t>(free.process);
  tell(process, [this, process, free = std::move(free)] {
    for (const FreedSlots& freed : free.frees) {
      stores_[process]->free(freed);
    }
  });
}

void Company::perform(DropRuns& drop) {
  const auto process = static_cast<std::size_t>(drop.process);
  tell(process, [this, process, drop] {
    if (drop.last_run) {
      stores_[process]->close(drop.sample_index, *drop.last_run);
    } else {
      stores_[process]->close(drop.sample_index);
    }
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      if (machine_.process_of(w) == process) {
        feed(w, drop);
      }
    }
  });
}

void Company::perform(FetchValues& fetch) {
  stores_[kHomeProcess]->fetch(
      fetch.values, [this, index = fetch.sample_index, run = fetch.run,
                     number = fetch.number](std::vector<RemoteValue> gone) {
        tell_coordinator(kHomeProcess,
                         ValuesFetched{index, run, number, std::move(gone)});
      });
}

void Company::perform(EndSample& end) {
  SampleOutcome outcome{std::move(end.report), {}, {}, {}};
  if (outcome.report.status == SampleStatus::done) {
    const auto slots =
        stores_[kHomeProcess]->open(outcome.report.sample_index, end.run);
    outcome.latents =
        std::get<samplers::SolverState>(slots->get(end.result)).latents;
    if (spec_.decode) {
      outcome.pixels = std::get<Tensor>(slots->get(kPixelsSlot));
    }
  }
  for (Observer* observer : spec_.observers) {
    observer->on_sample(outcome);
  }
  job_done_.result.samples.push_back(std::move(outcome.report));
}

void Company::perform(JobProgress& progress) {
  for (Observer* observer : spec_.observers) {
    observer->on_progress(progress);
  }
}

void Company::perform(ShowPass& show) {
  if (!spec_.trace) {
    return;
  }
  const auto& result = std::get<GrantResult>(*in_hand_);
  for (Observer* observer : spec_.observers) {
    observer->on_pass({result.span, result.made, result.reads, show.scalars});
  }
}

// ---- workers

/// As Firing: then its device takes the next pass, if it is free.
void Company::feed(std::size_t worker, WorkerEvent event) {
  if (end_) {
    return;
  }
  for (WorkerCommand& command : workers_[worker].policy.on(std::move(event))) {
    std::visit([&](auto& c) { perform(worker, c); }, command);
  }
  post_pass(worker);
}

/// What arrives at the same time counts in the choice.
void Company::post_pass(std::size_t index) {
  Worker& worker = workers_[index];
  if (!worker.is_posted && worker.policy.has_next()) {
    worker.is_posted = true;
    queue_.add(now(), [this, index] { start_pass(index); });
  }
}

void Company::start_pass(std::size_t index) {
  Worker& worker = workers_[index];
  worker.is_posted = false;
  const std::optional<Grant> pass = worker.policy.next();
  if (!pass) {
    return;
  }
  const std::uint64_t before = ctx_.ticks();
  worker.pass = std::make_unique<Execution>(*pass, ctx_, job_, store_of(index));
  const std::uint64_t ticks = ctx_.ticks() - before;
  worker.ticks += ticks;
  const samplers::Task& first = pass->tasks.front().task;
  const int rows = machine_.rows_of(pass->tasks);
  const double alone = machine_.pass_seconds(first, rows);
  double slowness = alone > 0 ? (1 + machine_.jitter * jitter_.unit()) *
                                    part_that_ran(first, rows, ticks)
                              : 1.0;
  if (alone > 0 && !machine_.slowness.empty()) {
    slowness *= machine_.slowness[jitter_.below(machine_.slowness.size())];
  }
  record(*pass, slowness);
  worker.is_busy = rows > 0;
  adapt_pace(rows > 0 ? 1 : 0);
  const bool is_first = rows > 0 && !std::exchange(worker.is_warm, true);
  const double work =
      alone * slowness + (is_first ? 1e-3 * machine_.first_ms : 0.0);
  const double seconds = work / machine_.speeds[index] / pace_ +
                         machine_.exchange_seconds(first, rows);
  end_at(index, now() + to_duration(seconds));
}

void Company::end_at(std::size_t index, TimePoint when) {
  workers_[index].ends = when;
  queue_.add(when, [this, index, when] {
    // Unless the pace has changed since.
    if (workers_[index].pass && workers_[index].ends == when) {
      end_pass(index);
    }
  });
}

/// More or fewer workers compute: the rest of each pass takes longer, or less
/// long.
void Company::adapt_pace(int more_busy) {
  num_busy_ += more_busy;
  const double pace = num_busy_ > 0 ? machine_.pace(num_busy_) : pace_;
  if (pace == pace_) {
    return;
  }
  const double before = std::exchange(pace_, pace);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const TimePoint ends = workers_[i].ends;
    if (workers_[i].is_busy && ends > now()) {
      end_at(i, now() + to_duration(to_seconds(ends - now()) * before / pace));
    }
  }
}

/// Of the seconds of a pass of so many rows: 1, unless rows left out all blocks
/// but the first.
double Company::part_that_ran(const samplers::Task& first, int rows,
                              std::uint64_t ticks) const {
  const auto blocks = static_cast<double>(
      spec_.parts.evaluator->ticks_per_row() / (machine_.is_guided ? 2 : 1));
  if (!first.op->may_reuse || blocks <= 1) {
    return 1;
  }
  const double others = (static_cast<double>(ticks) - rows) / (blocks - 1);
  const int whole = std::clamp(static_cast<int>(std::lround(others)), 0, rows);
  return (1 + (blocks - 1) * machine_.pass_seconds(first, whole) /
                  machine_.pass_seconds(first, rows)) /
         blocks;
}

void Company::end_pass(std::size_t index) {
  Worker& worker = workers_[index];
  const std::unique_ptr<Execution> pass = std::move(worker.pass);
  adapt_pace(std::exchange(worker.is_busy, false) ? -1 : 0);
  GrantResult result = pass->finish();
  result.ticks = worker.ticks;
  if (auto* const gone = std::get_if<InputsGone>(&result.outcome)) {
    for (RemoteValue& value : gone->values) {
      value.process = static_cast<int>(machine_.process_of(index));
    }
  }
  for (const HeldValue& held : result.held) {
    const ValueName& name = held.name;
    const auto value =
        store_of(index).open(name.sample_index, name.run)->find(name.slot);
    if (value) {
      recorder_.made(name, bytes_of(pack(*value, reader_)));
    }
  }
  feed(index, WorkDone{std::move(result)});
}

/// What takes no time shares a pass with nobody.
void Company::record(const Grant& pass, double slowness) {
  const std::span<const SampleTask> tasks = pass.tasks;
  if (machine_.rows_of(tasks.front().task) > 0) {
    recorder_.begin(tasks, slowness);
    return;
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    recorder_.begin(tasks.subspan(i, 1), slowness);
  }
}

void Company::perform(std::size_t worker, FreeOwn& free) {
  for (const FreedSlots& freed : free.frees) {
    store_of(worker).free(freed);
  }
}

void Company::perform(std::size_t worker, FetchInputs& fetch) {
  for (const RemoteValue& value : fetch.values) {
    const auto then = [this, worker, value](bool is_here) {
      feed(worker, is_here ? WorkerEvent(InputHere{value.name})
                           : WorkerEvent(InputGone{value}));
    };
    if (std::cmp_equal(value.process, machine_.process_of(worker))) {
      store_of(worker).await(value.name, then);
    } else {
      store_of(worker).fetch(value, then);
    }
  }
}

void Company::perform(std::size_t worker, GrantResult& result) {
  tell_coordinator(worker, std::move(result));
}

// ---- values

/// The holder answers when it has the value.
void Company::ask(std::size_t asker, std::size_t holder, const ValueName& name,
                  ValueChannel::Taker taker) {
  queue_.add(now() + way(asker, holder), [this, asker, holder, name,
                                          taker = std::move(taker)] {
    stores_[holder]->give(
        name, [this, asker, holder, taker](std::optional<Parcel> parcel) {
          TimePoint arrives = now() + way(holder, asker);
          if (parcel) {
            const std::uint64_t bytes = bytes_of(*parcel);
            job_done_.bytes_sent += bytes;
            arrives = links_.send(holder, asker, bytes, now());
          }
          queue_.add(arrives,
                     [taker, parcel = std::move(parcel)] { taker(parcel); });
        });
  });
}

EmulatedJob emulate(JobSpec spec, const Machine& machine, int threads) {
  require(spec.workers.size() == machine.num_workers(), Errc::invalid_argument,
          "emulation", "each device has one worker");
  for (std::size_t w = 0; w < spec.workers.size(); ++w) {
    spec.workers[w].process = static_cast<int>(machine.process_of(w));
  }
  spec.outcome_bytes = 0;
  spec.value_budget = 0;
  spec.lease = {};
  spec.cuts.interval = Duration::max();  // nothing is lost here
  return Company(spec, machine, threads).run();
}

}  // namespace troupe::actors::emulation

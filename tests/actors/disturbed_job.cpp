#include "tests/actors/disturbed_job.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "actors/random.h"
#include "actors/shells.h"
#include "tests/actors/observed_job.h"
#include "tests/actors/witness.h"

namespace troupe::actors {
namespace {

constexpr int kWorkers = 3;
/// Every method takes more passes for its job.
constexpr int kLastStruckPass = 20;
/// A fence takes a lease and, at most, the coordinator's next look at its
/// clock. Whoever waits longer waits in vain, and the job tells why.
constexpr auto kLongEnough = std::chrono::seconds(30);

class Disturber;

/// A worker's executor that may refuse a pass: then its worker ends.
class DisturbedExecutor final : public Executor {
 public:
  DisturbedExecutor(Disturber& disturber, int worker, std::uint32_t epoch)
      : disturber_(disturber), worker_(worker), epoch_(epoch) {}

  void post(Job job) override;
  void post_when(Condition condition, Job job) override {
    inner_.post_when(std::move(condition), std::move(job));
  }

  [[nodiscard]] std::pair<int, std::uint32_t> name() const {
    return {worker_, epoch_};
  }
  std::atomic<bool> refuses{false};
  std::atomic<int> slow_milliseconds{0};

 private:
  Disturber& disturber_;
  int worker_;
  std::uint32_t epoch_;
  ThreadExecutor inner_;
};

/// Counts the passes of a job and carries out its plan. Thread: any.
class Disturber {
 public:
  explicit Disturber(const DisturbancePlan& plan) : plan_(plan) {}

  std::unique_ptr<Executor> make_executor(int worker) {
    const std::lock_guard lock(mutex_);
    return std::make_unique<DisturbedExecutor>(*this, worker,
                                               ++epochs_[worker]);
  }
  void runs_here(DisturbedExecutor& executor) {
    const std::lock_guard lock(mutex_);
    executors_[std::this_thread::get_id()] = &executor;
  }
  void is_up(int worker, std::uint32_t epoch, const WorkerActor& actor) {
    const std::lock_guard lock(mutex_);
    actors_[{worker, epoch}] = caf::actor_cast<caf::actor_addr>(actor);
  }
  void note(Disturbance kind) { ++struck_[static_cast<std::size_t>(kind)]; }

  /// Around the computing of a pass.
  template <typename Body>
  void pass(ExecContext& ctx, const Body& body) {
    DisturbedExecutor* executor = nullptr;
    std::optional<PlannedDisturbance> planned;
    {
      const std::lock_guard lock(mutex_);
      executor = executors_.at(std::this_thread::get_id());
      const auto found = plan_.by_pass.find(++num_passes_);
      if (found != plan_.by_pass.end()) {
        planned = found->second;
      }
    }
    std::this_thread::sleep_for(
        std::chrono::milliseconds(executor->slow_milliseconds));
    if (planned && !planned->is_behind) {
      strike(*planned, *executor, ctx);
    }
    body();
    if (planned && planned->is_behind) {
      strike(*planned, *executor, ctx);
      late_passes_ += ctx.stop_requested() ? 1 : 0;
    }
  }

  void tell(DisturbedRun& run) const {
    for (std::size_t kind = 0; kind < struck_.size(); ++kind) {
      run.struck[kind] = struck_[kind];
    }
    run.late_passes = late_passes_;
  }

 private:
  void strike(const PlannedDisturbance& planned, DisturbedExecutor& executor,
              ExecContext& ctx) {
    switch (planned.kind) {
      case Disturbance::end_within:
        kill(executor);
        // Goes on at once: the result races with the message that the worker
        // has ended.
        wait_for_end(ctx, planned.kind, [] { std::this_thread::yield(); });
        break;
      case Disturbance::end_between:
        executor.refuses = true;
        break;
      case Disturbance::freeze:
        wait_for_end(ctx, planned.kind, [] {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        });
        break;
      case Disturbance::pause:
        std::this_thread::sleep_for(
            std::chrono::milliseconds(planned.milliseconds));
        note(planned.kind);
        break;
      case Disturbance::slow:
        executor.slow_milliseconds = planned.milliseconds;
        note(planned.kind);
        break;
    }
  }

  /// A worker that ends asks its passes to stop.
  template <typename Wait>
  void wait_for_end(const ExecContext& ctx, Disturbance kind,
                    const Wait& wait) {
    const auto limit = std::chrono::steady_clock::now() + kLongEnough;
    while (!ctx.stop_requested() && std::chrono::steady_clock::now() < limit) {
      wait();
    }
    if (ctx.stop_requested()) {
      note(kind);
    }
  }

  void kill(const DisturbedExecutor& executor) {
    const std::lock_guard lock(mutex_);
    caf::anon_send_exit(
        caf::actor_cast<WorkerActor>(actors_.at(executor.name())),
        caf::exit_reason::kill);
  }

  const DisturbancePlan& plan_;
  std::mutex mutex_;
  int num_passes_ = 0;
  std::map<int, std::uint32_t>
      epochs_;  ///< by worker, as its supervisor counts
  std::map<std::thread::id, DisturbedExecutor*> executors_;
  /// By worker and incarnation; they do not keep an actor alive.
  std::map<std::pair<int, std::uint32_t>, caf::actor_addr> actors_;
  std::array<std::atomic<int>, std::size(kDisturbances)> struck_{};
  std::atomic<int> late_passes_{0};
};

void DisturbedExecutor::post(Job job) {
  if (refuses.exchange(false)) {
    disturber_.note(Disturbance::end_between);
    throw Error(Errc::internal, "test", "the worker ends here");
  }
  inner_.post([this, job = std::move(job)] {
    disturber_.runs_here(*this);
    job();
  });
}

/// The toy network, by workers that are disturbed.
class DisturbedEvaluator final : public samplers::Evaluator {
 public:
  DisturbedEvaluator(Evaluator& inner, Disturber& disturber)
      : inner_(inner), disturber_(disturber) {}

  [[nodiscard]] Shape latent_shape() const override {
    return inner_.latent_shape();
  }
  [[nodiscard]] std::int64_t out_channels() const override {
    return inner_.out_channels();
  }
  [[nodiscard]] int num_segments() const override {
    return inner_.num_segments();
  }
  void evaluate(ExecContext& ctx,
                std::span<samplers::EvaluateRow> rows) override {
    disturber_.pass(ctx, [&] { inner_.evaluate(ctx, rows); });
  }
  void evaluate_cached(ExecContext& ctx,
                       std::span<samplers::CachedRow> rows) override {
    disturber_.pass(ctx, [&] { inner_.evaluate_cached(ctx, rows); });
  }
  void run_segment(ExecContext& ctx, int segment,
                   std::span<samplers::SegmentRow> rows) override {
    disturber_.pass(ctx, [&] { inner_.run_segment(ctx, segment, rows); });
  }
  void combine(ExecContext& ctx, double timestep, const Tensor& cond,
               const Tensor& uncond, Tensor& out) override {
    inner_.combine(ctx, timestep, cond, uncond, out);
  }
  void decode(ExecContext& ctx, const Tensor& latents,
              Tensor& pixels) override {
    inner_.decode(ctx, latents, pixels);
  }

 private:
  Evaluator& inner_;
  Disturber& disturber_;
};

bool has_freeze(const DisturbancePlan& plan) {
  return std::ranges::any_of(plan.by_pass, [](const auto& entry) {
    return entry.second.kind == Disturbance::freeze;
  });
}

}  // namespace

DisturbancePlan plan_disturbances(std::uint64_t seed) {
  DisturbancePlan plan;
  plan.seed = seed;
  if (seed == kUndisturbed) {
    return plan;
  }
  Random random(seed);
  plan.max_rows = random.between(1, 2);
  plan.has_inbox = random.chance(0.5);
  const auto add = [&](Disturbance kind) {
    plan.by_pass.insert_or_assign(
        random.between(1, kLastStruckPass),
        PlannedDisturbance{kind, random.chance(0.5), random.between(1, 3)});
  };
  for (int n = random.between(0, 2); n > 0; --n) {
    add(random.chance(0.5) ? Disturbance::pause : Disturbance::slow);
  }
  for (int n = random.between(1, 2); n > 0; --n) {
    add(random.chance(0.25) ? Disturbance::freeze
        : plan.has_inbox    ? Disturbance::end_between
                            : Disturbance::end_within);
  }
  return plan;
}

std::string to_string(const DisturbancePlan& plan) {
  std::string text = "seed " + std::to_string(plan.seed) + ": " +
                     std::to_string(plan.max_rows) + " rows, " +
                     (plan.has_inbox ? "an inbox" : "no inbox");
  for (const auto& [pass, planned] : plan.by_pass) {
    text += ", pass " + std::to_string(pass) + " " +
            std::string(kDisturbances[static_cast<std::size_t>(planned.kind)]) +
            (planned.is_behind ? " behind it" : " before it");
  }
  return text;
}

DisturbedRun run_disturbed(const samplers::MethodOptions& method,
                           const DisturbancePlan& plan) {
  ObservedJob job(method);
  Disturber disturber(plan);
  DisturbedEvaluator evaluator(job.evaluator, disturber);
  job.spec.parts.evaluator = unowned(evaluator);
  job.spec.workers = cpu_workers(kWorkers, 1, plan.max_rows);
  job.spec.make_executor = [&disturber](int worker) {
    return disturber.make_executor(worker);
  };
  job.spec.restart.max_restarts = 1000;
  job.spec.trajectory = true;
  if (has_freeze(plan)) {
    job.spec.lease = {.least = std::chrono::milliseconds(150)};
    // On a busy machine an honest worker loses so short a lease too. That must
    // cost time alone.
    job.spec.max_losses = 0;
  }
  Detours detours;
  if (!plan.has_inbox) {
    detours.coordinator = Witness::between(
        [&disturber](const WorkerUp& up, const WorkerActor& worker) {
          disturber.is_up(up.worker, up.epoch, worker);
        });
  }
  DisturbedRun run;
  run.result = run_company(job.spec, detours);
  run.latents = std::move(job.seen.latents);
  run.points = std::move(job.seen.points);
  disturber.tell(run);
  return run;
}

}  // namespace troupe::actors

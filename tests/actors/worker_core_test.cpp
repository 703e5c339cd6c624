#include "actors/worker_core.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/coordinator_policy.h"
#include "actors/firing.h"
#include "kernels/core/executor.h"
#include "samplers/noise_source.h"
#include "tests/actors/job_support.h"
#include "tests/actors/plain_loop.h"
#include "tests/actors/toy_evaluator.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;

/// Everything a worker needs, over the toy network.
struct Shop {
  explicit Shop(MethodOptions options = {}, int segments = 1)
      : method(options),
        evaluator(segments),
        job({unowned(schedule), method, unowned(evaluator), unowned(noise)},
            unowned(clock)) {}

  samplers::Schedule schedule{ddim_steps(6)};
  MethodOptions method;
  ToyEvaluator evaluator;
  samplers::PhiloxNoise noise{11};
  ManualClock clock;
  JobContext job;
  samplers::TaskRunner& runner = job.runner;
  std::shared_ptr<ValueStore> store = make_store(job);
  ValueStore& samples = *store;

  [[nodiscard]] Tensor sequential(std::uint64_t sample) {
    return plain_loop(schedule, noise, runner, evaluator.latent_shape(),
                      sample);
  }
};

Grant first_grant(const Shop& shop, std::uint64_t sample) {
  Grant grant;
  const auto method = make_method(shop.method, shop.schedule);
  for (samplers::Task& task : method->ready(samplers::kNothingAhead)) {
    grant.tasks.push_back({sample, std::move(task)});
  }
  return grant;
}

TEST(Execute, WritesTheOutputsOfItsTasks) {
  Shop shop;
  ExecContext ctx;
  const Grant grant = first_grant(shop, 4);
  const GrantResult result =
      Execution(grant, ctx, shop.job, shop.samples).finish();
  ASSERT_EQ(std::get<TasksDone>(result.outcome).results.size(), 1U);
  const auto slots = shop.samples.open(4);
  EXPECT_TRUE(slots->find(grant.tasks[0].task.outputs[0]).has_value());
  EXPECT_TRUE(result.made.empty()) << "nobody traces the job";
}

TEST(Execute, IsHarmlessTwice) {
  Shop shop;
  ExecContext ctx;
  const Grant grant = first_grant(shop, 4);
  (void)Execution(grant, ctx, shop.job, shop.samples).finish();
  const samplers::Slot out = grant.tasks[0].task.outputs[0];
  const auto once = std::get<Tensor>(shop.samples.open(4)->get(out)).clone();
  (void)Execution(grant, ctx, shop.job, shop.samples).finish();
  const auto twice = std::get<Tensor>(shop.samples.open(4)->get(out));
  EXPECT_TRUE(bytes_equal(once, twice));
}

TEST(Execute, PutsAnErrorIntoTheResult) {
  Shop shop;
  shop.evaluator.before_forward = [](ExecContext&) {
    throw Error(Errc::unsupported, "toy", "does not want to");
  };
  ExecContext ctx;
  const GrantResult result =
      Execution(first_grant(shop, 0), ctx, shop.job, shop.samples).finish();
  EXPECT_EQ(std::get<TasksFailed>(result.outcome).failure.code,
            Errc::unsupported);
}

TEST(Execute, WritesNothingOfAGrantThatFailed) {
  Shop shop;
  ExecContext ctx;
  const auto method = make_method(shop.method, shop.schedule);
  Grant evaluates;
  evaluates.tasks.push_back({4, method->ready(samplers::kNothingAhead).at(0)});
  const GrantResult first =
      Execution(evaluates, ctx, shop.job, shop.samples).finish();
  ASSERT_TRUE(method->apply(std::get<TasksDone>(first.outcome).results.at(0)));
  const samplers::Task step = method->ready(samplers::kNothingAhead).at(0);
  Grant steps;
  // What stands for the state of sample 5 is none.
  for (const samplers::Slot slot : step.inputs) {
    shop.samples.open(5)->put(slot, Tensor({1}, DType::f32));
  }
  steps.tasks = {{4, step}, {5, step}};
  const GrantResult failed =
      Execution(steps, ctx, shop.job, shop.samples).finish();
  EXPECT_TRUE(std::holds_alternative<TasksFailed>(failed.outcome));
  EXPECT_TRUE(failed.held.empty());
  EXPECT_FALSE(shop.samples.open(4)->has(step.outputs.at(0)));
}

TEST(Execute, SaysWhichInputsItsProcessHasLost) {
  Shop shop;
  ExecContext ctx;
  Grant grant = first_grant(shop, 4);
  const Grant other = first_grant(shop, 5);
  grant.tasks.push_back(other.tasks.at(0));
  grant.tasks[0].grant = 7;
  grant.tasks[1].grant = 8;
  shop.samples.free({5, 0, {samplers::kInitialSlot}});
  const GrantResult result =
      Execution(grant, ctx, shop.job, shop.samples).finish();
  EXPECT_EQ(result.grants, (std::vector<std::uint64_t>{7, 8}));
  const auto& gone = std::get<InputsGone>(result.outcome).values;
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].name, (ValueName{5, 0, samplers::kInitialSlot}));
  EXPECT_EQ(shop.samples.open(4)->size(), 0U) << "nothing ran";
}

TEST(Execute, DoesNothingAfterAStop) {
  Shop shop;
  ExecContext ctx;
  ctx.request_stop();
  const GrantResult result =
      Execution(first_grant(shop, 0), ctx, shop.job, shop.samples).finish();
  EXPECT_EQ(std::get<TasksFailed>(result.outcome).failure.code,
            Errc::interrupted);
  EXPECT_EQ(shop.samples.size(), 0U);
}

TEST(ValueStore, MakesTheInitialStateOnceAndForgetsIt) {
  Shop shop;
  const auto a = shop.samples.open(9);
  const auto b = shop.samples.open(9);
  EXPECT_EQ(a.get(), b.get());
  EXPECT_TRUE(a->find(samplers::kInitialSlot).has_value());
  shop.samples.close(9);
  EXPECT_EQ(shop.samples.size(), 0U);
}

TEST(ValueStore, HoldsNothingOfASampleThatHasEnded) {
  Shop shop;
  for (const std::uint64_t index : {4U, 2U, 3U, 9U, 3U}) {
    (void)shop.samples.open(index);
    shop.samples.close(index);
    // A grant that was queued when the sample ended.
    const auto late = shop.samples.open(index);
    EXPECT_TRUE(late->find(samplers::kInitialSlot).has_value());
    EXPECT_EQ(shop.samples.size(), 0U) << index;
  }
  for (const std::uint64_t index : {1U, 5U, 8U, 10U}) {
    EXPECT_EQ(shop.samples.open(index).get(), shop.samples.open(index).get())
        << index << " never ended";
  }
  EXPECT_EQ(shop.samples.size(), 4U);
}

/// Policy, executors and runner without an actor in between.
class ThreadCompany {
 public:
  ThreadCompany(Shop& shop, CoordinatorOptions options)
      : shop_(shop), policy_(options) {
    for (std::size_t w = 0; w < options.workers.size(); ++w) {
      executors_.push_back(std::make_unique<ThreadExecutor>());
      workers_.push_back(std::make_shared<Firing>(FiringSpec{
          .worker = static_cast<int>(w),
          .epoch = 1,
          .ctx = std::make_shared<ExecContext>(1),
          .job = unowned(shop.job),
          .store = shop.store,
          .executor = executors_.back().get(),
          .answer = [this](GrantResult result) { add(std::move(result)); },
          .beat = [](const WorkerBeat&) {},
          .fail =
              [](const Failure& cause) { ADD_FAILURE() << cause.message; }}));
    }
  }
  ~ThreadCompany() {
    for (const auto& worker : workers_) {
      worker->close();
    }
    executors_.clear();  // waits for what still runs
    shop_.store->give_up();
  }
  ThreadCompany(const ThreadCompany&) = delete;
  ThreadCompany& operator=(const ThreadCompany&) = delete;

  /// Runs the job to its end; the final latents by sample.
  std::map<std::uint64_t, Tensor> run() {
    for (int w = 0; w < static_cast<int>(executors_.size()); ++w) {
      feed(WorkerUp{w, 1});
    }
    while (!over_) {
      const GrantResult result = next_result();
      if (const auto* failed = std::get_if<TasksFailed>(&result.outcome)) {
        ADD_FAILURE() << failed->failure.message;
        break;
      }
      feed(result);
    }
    return std::move(finished_);
  }

 private:
  void add(GrantResult result) {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(result));
    arrived_.notify_one();
  }
  GrantResult next_result() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return !inbox_.empty(); });
    GrantResult result = std::move(inbox_.front());
    inbox_.pop_front();
    return result;
  }

  void feed(const CoordinatorEvent& event) {
    for (CoordinatorCommand& command : policy_.on(event, {})) {
      if (auto* grant = std::get_if<Grant>(&command)) {
        workers_[static_cast<std::size_t>(grant->worker)]->on(*grant);
      } else if (auto* free = std::get_if<FreeValues>(&command)) {
        for (const FreedSlots& freed : free->frees) {
          shop_.samples.free(freed);
        }
      } else if (auto* drop = std::get_if<DropRuns>(&command)) {
        shop_.samples.close(drop->sample_index);
        for (const auto& worker : workers_) {
          worker->on(*drop);
        }
      } else if (auto* end = std::get_if<EndSample>(&command)) {
        const auto slots = shop_.samples.open(end->report.sample_index);
        finished_[end->report.sample_index] =
            std::get<samplers::SolverState>(slots->get(end->result)).latents;
      } else if (std::holds_alternative<EndJob>(command)) {
        over_ = true;
      }
    }
  }

  Shop& shop_;
  CoordinatorPolicy policy_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<GrantResult> inbox_;
  std::map<std::uint64_t, Tensor> finished_;
  bool over_ = false;
  std::vector<std::unique_ptr<ThreadExecutor>> executors_;
  std::vector<std::shared_ptr<Firing>> workers_;
};

TEST(Company, ComputesTheSequentialBytesOnThreads) {
  constexpr std::uint64_t kSamples = 5;
  for (const MethodKind kind : {MethodKind::batch, MethodKind::cfg,
                                MethodKind::picard, MethodKind::pipeline}) {
    Shop shop({.kind = kind, .window_size = 3, .num_segments = 2},
              kind == MethodKind::pipeline ? 2 : 1);
    CoordinatorOptions options;
    for (std::uint64_t i = 0; i < kSamples; ++i) {
      options.samples.push_back(i);
    }
    options.make_method = [&] {
      return make_method(shop.method, shop.schedule);
    };
    options.method = shop.method;
    options.workers.assign(3, {.max_rows = 2});
    options.decode = false;
    const auto finished = ThreadCompany(shop, options).run();
    ASSERT_EQ(finished.size(), kSamples);
    for (const auto& [index, latents] : finished) {
      EXPECT_TRUE(bytes_equal(latents, shop.sequential(index)))
          << index << " method " << kind->name;
    }
  }
}

}  // namespace
}  // namespace troupe::actors

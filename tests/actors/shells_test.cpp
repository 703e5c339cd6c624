#include "actors/shells.h"

#include <gtest/gtest.h>

#include <array>
#include <caf/scheduler/test_coordinator.hpp>
#include <memory>
#include <optional>

#include "samplers/noise_source.h"
#include "tests/actors/job_support.h"
#include "tests/actors/toy_evaluator.h"
#include "tests/actors/witness.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;

class TestConfig final : public caf::actor_system_config {
 public:
  TestConfig() {
    add_message_types<caf::id_block::troupe>();
    set("scheduler.policy", caf::atom("testing"));
  }
};

/// Posts to a ManualExecutor that the test holds; throws once it is broken.
class Borrowed final : public Executor {
 public:
  Borrowed(std::shared_ptr<ManualExecutor> inner, const bool& broken)
      : inner_(std::move(inner)), broken_(broken) {}
  void post(Job job) override {
    require(!broken_, Errc::internal, "test", "the worker ends here");
    inner_->post(std::move(job));
  }
  void post_when(Condition condition, Job job) override {
    inner_->post_when(std::move(condition), std::move(job));
  }

 private:
  std::shared_ptr<ManualExecutor> inner_;
  const bool& broken_;
};

/// A whole company on CAF's deterministic scheduler: messages move when the
/// test says so, work runs when the test says so, time stands still unless the
/// test moves it.
class Shells : public testing::Test {
 protected:
  Shells()
      : system_(config_),
        scheduler_(dynamic_cast<caf::scheduler::test_coordinator&>(
            system_.scheduler())) {
    for (int w = 0; w < kWorkers; ++w) {
      executors_.push_back(std::make_shared<ManualExecutor>());
    }
  }

  ~Shells() override {
    for (const auto& executor : executors_) {
      executor->run_all();
    }
    company_.dismiss();
    scheduler_.run();
  }

  void start(std::uint64_t samples, const Detours& detours = {}) {
    CoordinatorOptions options;
    for (std::uint64_t i = 0; i < samples; ++i) {
      options.samples.push_back(i);
    }
    options.make_method = [this] { return make_method(method_, schedule_); };
    options.workers.resize(kWorkers);
    options.lease.least = lease_;
    RestartOptions restart;
    restart.first_delay = std::chrono::milliseconds(50);
    const auto make_executor = [this](int worker) -> std::unique_ptr<Executor> {
      ++starts_;
      return std::make_unique<Borrowed>(
          executors_[static_cast<std::size_t>(worker)],
          broken_.at(static_cast<std::size_t>(worker)));
    };
    company_ = spawn_company(system_,
                             {{},
                              [this](JobHistory record) {
                                ++ends_;
                                record_ = std::move(record);
                              }},
                             {options, job_, store_, {}, false},
                             {{.workers = cpu_workers(kWorkers),
                               .restart = restart,
                               .job = job_,
                               .store = store_,
                               .make_executor = make_executor}},
                             detours);
    scheduler_.run();
  }

  /// Runs one job of `worker`, then delivers all messages that follow.
  bool work(int worker) {
    const bool ran = executors_[static_cast<std::size_t>(worker)]->run_one();
    scheduler_.run();
    return ran;
  }

  static constexpr int kWorkers = 2;
  TestConfig config_;
  caf::actor_system system_;
  caf::scheduler::test_coordinator& scheduler_;
  ManualClock clock_;
  samplers::MethodOptions method_{.kind = MethodKind::batch};
  samplers::Schedule schedule_{ddim_steps(3)};
  ToyEvaluator evaluator_;
  samplers::PhiloxNoise noise_{11};
  std::shared_ptr<JobContext> job_ = std::make_shared<JobContext>(
      JobParts{unowned(schedule_), method_, unowned(evaluator_),
               unowned(noise_)},
      unowned(clock_));
  std::shared_ptr<ValueStore> store_ = make_store(*job_);
  std::vector<std::shared_ptr<ManualExecutor>> executors_;
  Company company_;
  std::optional<JobHistory> record_;
  int ends_ = 0;
  int starts_ = 0;
  Duration lease_{};
  std::array<bool, kWorkers> broken_{};
};

TEST_F(Shells, StartEveryWorkerAndLetItsExecutorTakeOnePassAfterAnother) {
  start(8);
  EXPECT_EQ(starts_, kWorkers);
  EXPECT_EQ(executors_[0]->pending(), 1U);
  work(0);  // took no time by the manual clock: two samples are in flight
  EXPECT_EQ(executors_[0]->pending(), 1U);
  // The next pass is posted by the one before, without an actor in between.
  EXPECT_TRUE(executors_[0]->run_one());
  EXPECT_EQ(executors_[0]->pending(), 1U);
}

TEST_F(Shells, FinishAJobWhenWorkRuns) {
  start(3);
  while (work(0) || work(1)) {
  }
  ASSERT_TRUE(record_);
  EXPECT_EQ(record_->ended.size(), 3U);
  EXPECT_FALSE(record_->end.failure);
  EXPECT_EQ(store_->size(), 0U);
}

TEST_F(Shells, FinishAJobWhoseResultsComeTogether) {
  start(9);
  bool ran = true;
  while (ran) {
    ran = false;
    for (const auto& executor : executors_) {
      while (executor->run_one()) {
        ran = true;
      }
    }
    scheduler_.run();
  }
  ASSERT_TRUE(record_);
  EXPECT_EQ(record_->ended.size(), 9U);
  EXPECT_EQ(record_->end.progress.calls_done, 27);
  EXPECT_FALSE(record_->end.failure);
}

TEST_F(Shells, CountResultsThatAreThereWhenOtherNewsIsHandled) {
  start(8);
  caf::anon_send(company_.coordinator, halt_atom{});
  EXPECT_TRUE(executors_[0]->run_one());
  EXPECT_TRUE(executors_[1]->run_one());
  scheduler_.run();
  ASSERT_TRUE(record_);
  EXPECT_TRUE(record_->end.stopped);
  EXPECT_EQ(record_->end.progress.calls_done, 2);
}

TEST_F(Shells, AnswerControlWhileWorkWaits) {
  start(8);
  caf::anon_send(company_.coordinator, halt_atom{});
  scheduler_.run();
  ASSERT_TRUE(record_);
  EXPECT_TRUE(record_->end.stopped);
  EXPECT_EQ(record_->end.unfinished.size(), 8U);
  // What was queued runs into the stop instead of computing.
  work(0);
  for (std::uint64_t sample = 0; sample < 8; ++sample) {
    EXPECT_EQ(store_->open(sample)->size(), 0U);
  }
}

TEST_F(Shells, StartAWorkerAgainAfterItsDelay) {
  start(8);
  broken_[1] = true;
  work(1);
  EXPECT_EQ(starts_, kWorkers);
  broken_[1] = false;
  scheduler_.advance_time(std::chrono::milliseconds(60));
  scheduler_.run();
  EXPECT_EQ(starts_, kWorkers + 1);
  for (int i = 0; i < 1000 && !record_; ++i) {
    work(0);
    work(1);
  }
  ASSERT_TRUE(record_);
  EXPECT_EQ(record_->ended.size(), 8U);
  EXPECT_EQ(record_->end.recoveries, 1);
}

TEST_F(Shells, FinishAJobWhoseWorkerIsKilledWithinAPass) {
  std::array<WorkerActor, kWorkers> workers;
  bool is_killed = false;
  evaluator_.before_forward = [&](ExecContext& /*ctx*/) {
    if (workers[1] && !std::exchange(is_killed, true)) {
      caf::anon_send_exit(std::exchange(workers[1], nullptr),
                          caf::exit_reason::kill);
      // It ends. What its pass then says is sent before the supervisor has
      // heard of that.
      scheduler_.run_once();
    }
  };
  start(8, {.coordinator = Witness::between(
                [&](const WorkerUp& up, const WorkerActor& worker) {
                  workers.at(static_cast<std::size_t>(up.worker)) = worker;
                })});
  work(1);
  ASSERT_TRUE(is_killed);
  EXPECT_FALSE(record_) << record_->end.failure->message;
  scheduler_.advance_time(std::chrono::milliseconds(60));
  scheduler_.run();
  EXPECT_EQ(starts_, kWorkers + 1);
  for (int i = 0; i < 1000 && !record_; ++i) {
    work(0);
    work(1);
  }
  workers = {};
  ASSERT_TRUE(record_);
  EXPECT_FALSE(record_->end.failure);
  EXPECT_EQ(record_->ended.size(), 8U);
  EXPECT_EQ(record_->end.recoveries, 1);
}

TEST_F(Shells, StartAFencedWorkerAgain) {
  lease_ = std::chrono::seconds(10);
  start(8);
  // Nobody shows life for a whole lease: both are fenced.
  clock_.advance(std::chrono::seconds(11));
  scheduler_.advance_time(std::chrono::milliseconds(300));
  scheduler_.run();
  scheduler_.advance_time(std::chrono::milliseconds(60));
  scheduler_.run();
  EXPECT_EQ(starts_, 2 * kWorkers);
  for (int i = 0; i < 1000 && !record_; ++i) {
    work(0);
    work(1);
  }
  ASSERT_TRUE(record_);
  EXPECT_EQ(record_->ended.size(), 8U);
  EXPECT_FALSE(record_->end.failure);
  EXPECT_EQ(record_->end.recoveries, kWorkers);
}

TEST_F(Shells, EndTheJobWhenAHandlerOfTheCoordinatorThrows) {
  start(8);
  caf::anon_send(company_.coordinator, WorkerUp{99, 1}, WorkerActor());
  scheduler_.run();
  ASSERT_TRUE(record_);
  ASSERT_TRUE(record_->end.failure);
  EXPECT_EQ(record_->end.failure->place, "worker");
  EXPECT_EQ(ends_, 1);
}

TEST_F(Shells, EndTheJobWhenAHandlerOfTheNodeThrows) {
  start(8);
  caf::anon_send(company_.nodes.at(0), WorkerUp{99, 1}, WorkerActor());
  scheduler_.run();
  ASSERT_TRUE(record_);
  ASSERT_TRUE(record_->end.failure);
  EXPECT_EQ(record_->end.failure->place, "worker");
  EXPECT_EQ(record_->end.unfinished.size(), 8U);
  EXPECT_EQ(ends_, 1);
}

TEST_F(Shells, EndTheJobWithWhicheverActorEnds) {
  for (int which = 0; which < 3; ++which) {
    record_.reset();
    ends_ = 0;
    start(8);
    const caf::actor actors[] = {
        caf::actor_cast<caf::actor>(company_.observers),
        caf::actor_cast<caf::actor>(company_.coordinator),
        caf::actor_cast<caf::actor>(company_.nodes.at(0))};
    caf::anon_send_exit(actors[which], caf::exit_reason::kill);
    scheduler_.run();
    ASSERT_TRUE(record_) << which;
    ASSERT_TRUE(record_->end.failure);
    EXPECT_NE(record_->end.failure->message.find("ended before its job"),
              std::string::npos)
        << record_->end.failure->message;
    EXPECT_EQ(record_->end.unfinished.size(), 8U);
    company_.dismiss();
    for (const auto& executor : executors_) {
      executor->run_all();
    }
    scheduler_.run();
    EXPECT_EQ(ends_, 1);
  }
}

}  // namespace
}  // namespace troupe::actors

#include "actors/firing.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "actors/random.h"
#include "samplers/noise_source.h"
#include "tests/actors/job_support.h"
#include "tests/actors/policy_company.h"
#include "tests/actors/toy_evaluator.h"

namespace troupe::actors {
namespace {

class Firings : public testing::Test {
 protected:
  static constexpr int kWorker = 3;
  static constexpr std::uint32_t kEpoch = 2;

  /// An evaluation of a sample's initial state.
  static SampleTask task(std::uint64_t grant, std::uint64_t sample = 1) {
    return {sample,
            {.id = grant,
             .op = samplers::Op::evaluate,
             .to = 1,
             .inputs = {samplers::kInitialSlot},
             .outputs = {static_cast<samplers::Slot>(grant)}},
            0,
            grant};
  }
  static Grant grant(std::vector<SampleTask> tasks) {
    Grant made;
    made.worker = kWorker;
    made.epoch = kEpoch;
    made.tasks = std::move(tasks);
    return made;
  }

  /// Makes a value that tasks wait for, as another worker of the process would,
  /// or frees the value.
  void make_something(Random& random) {
    if (coming_.empty()) {
      return;
    }
    std::swap(coming_[random.below(coming_.size())], coming_.back());
    const ValueName name = coming_.back();
    coming_.pop_back();
    const auto slots = store_->open(name.sample_index, name.run);
    if (random.chance(0.2)) {
      slots->erase(std::vector{name.slot});
    } else {
      slots->put(name.slot, slots->get(samplers::kInitialSlot));
    }
  }

  ToyEvaluator evaluator_;
  samplers::PhiloxNoise noise_{11};
  ManualClock clock_;
  ManualExecutor executor_;
  std::shared_ptr<ExecContext> ctx_ = std::make_shared<ExecContext>(1);
  std::shared_ptr<JobContext> job_ = std::make_shared<JobContext>(
      JobParts{unowned(short_schedule()),
               {.kind = samplers::MethodKind::batch},
               unowned(evaluator_),
               unowned(noise_)},
      unowned(clock_));
  std::shared_ptr<ValueStore> store_ = make_store(*job_);
  std::vector<ValueName> coming_;  ///< that grants wait for
  std::vector<GrantResult> answers_;
  int beats_ = 0;
  int failures_ = 0;
  std::shared_ptr<Firing> firing_ = std::make_shared<Firing>(FiringSpec{
      .worker = kWorker,
      .epoch = kEpoch,
      .ctx = ctx_,
      .job = job_,
      .store = store_,
      .executor = &executor_,
      .answer =
          [this](GrantResult result) { answers_.push_back(std::move(result)); },
      .beat = [this](WorkerBeat /*beat*/) { ++beats_; },
      .fail = [this](Failure /*cause*/) { ++failures_; }});
};

TEST_F(Firings, AnswerNothingForAPassThatTheEndOfTheirWorkerStops) {
  evaluator_.before_forward = [this](ExecContext& ctx) {
    firing_->close();
    ctx.request_stop();
  };
  firing_->on(grant({task(1)}));
  executor_.run_all();
  EXPECT_TRUE(answers_.empty());
  EXPECT_EQ(failures_, 0);
}

TEST_F(Firings, AnswerForAPassThatIsDoneWhenTheirWorkerEnds) {
  evaluator_.before_forward = [this](ExecContext& /*ctx*/) {
    firing_->close();
  };
  firing_->on(grant({task(1)}));
  executor_.run_all();
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<TasksDone>(answers_[0].outcome));
}

/// Every call that the actor, the store and the executor make on a Firing, in
/// random order.
TEST_F(Firings, AnswerEachGrantOnceWhateverTheOrder) {
  Random random(5);
  std::set<std::uint64_t> granted;
  std::uint64_t next = 0;
  const auto act = [&] {
    const std::uint64_t sample = random.below(3);
    switch (random.below(8)) {
      case 0:
      case 1: {
        Grant made = grant({task(++next, sample)});
        SampleTask& work = made.tasks.front();
        if (random.chance(0.3)) {
          // A state that another worker of the process makes, or a lost state.
          work.task.inputs = {static_cast<samplers::Slot>(next + 1'000'000)};
          if (random.chance(0.7)) {
            coming_.push_back({sample, 0, work.task.inputs[0]});
            made.sources = {{coming_.back(), kHomeProcess}};
          }
        }
        granted.insert(next);
        return firing_->on(made);
      }
      case 2:
        return firing_->on(
            Recall{kWorker, kEpoch, {1 + random.below(next + 1)}});
      case 3:
        return firing_->on(BeatAsked{random.bits()});
      case 4:
        return make_something(random);
      case 5:
        return firing_->on(InputGone{{{sample, 0, 9}, 4}});
      default:
        (void)executor_.run_one();
    }
  };
  for (int i = 0; i < 20'000; ++i) {
    act();
  }
  while (!coming_.empty()) {
    make_something(random);
  }
  executor_.run_all();
  EXPECT_EQ(failures_, 0);
  std::set<std::uint64_t> answered;
  for (const GrantResult& answer : answers_) {
    for (const std::uint64_t number : answer.grants) {
      EXPECT_TRUE(answered.insert(number).second) << "grant " << number;
    }
  }
  EXPECT_EQ(answered, granted);
  EXPECT_GE(granted.size(), 1000U);
  EXPECT_GE(beats_, 1000);
}

}  // namespace
}  // namespace troupe::actors

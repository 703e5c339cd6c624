#include "actors/firing.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

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
  EXPECT_FALSE(answers_[0].failure);
}

}  // namespace
}  // namespace troupe::actors

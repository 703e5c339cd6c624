#include "samplers/parallel/task_runner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/pixel_bytes.h"
#include "tests/parallel/run_local.h"
#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

class TaskRunnerTest : public ::testing::Test {
 protected:
  TaskRunnerTest()
      : bench_(steps(6)),
        runner_(bench_.schedule, bench_.evaluator, bench_.noise, {}) {}

  /// A sample whose slot 0 holds its start.
  SlotTable& sample(std::uint64_t index) {
    SlotTable& slots = slots_[index];
    slots.put(kInitialSlot, bench_.start(index));
    return slots;
  }

  Bench bench_;
  TaskRunner runner_;
  std::map<std::uint64_t, SlotTable> slots_;
};

Task evaluate_at(int call) {
  return {.id = 1,
          .op = Op::evaluate,
          .from = call,
          .to = call + 1,
          .timestep_call = call,
          .inputs = {0},
          .outputs = {1}};
}

TEST_F(TaskRunnerTest, JoinsEvaluationsOfManySamplesInOneForward) {
  std::vector<BoundTask> tasks;
  for (std::uint64_t index = 0; index < 5; ++index) {
    tasks.push_back(
        {index, evaluate_at(static_cast<int>(index)), &sample(index)});
  }
  (void)run_tasks(runner_, bench_.ctx, tasks);
  EXPECT_EQ(bench_.evaluator.forwards(), 1);
  EXPECT_EQ(bench_.evaluator.rows(), 5);
}

TEST_F(TaskRunnerTest, GivesARowTheSameBytesAloneAndAmongOthers) {
  std::vector<BoundTask> tasks;
  for (std::uint64_t index = 0; index < 3; ++index) {
    tasks.push_back({index, evaluate_at(2), &sample(index)});
  }
  (void)run_tasks(runner_, bench_.ctx, tasks);
  const auto among = std::get<Tensor>(slots_[1].get(1)).clone();
  SlotTable alone;
  alone.put(kInitialSlot, bench_.start(1));
  const std::vector<BoundTask> one = {{1, evaluate_at(2), &alone}};
  (void)run_tasks(runner_, bench_.ctx, one);
  EXPECT_TRUE(bytes_equal(std::get<Tensor>(alone.get(1)), among));
}

TEST_F(TaskRunnerTest, JoinsRowsOfOneSegmentAndKeepsSegmentsApart) {
  std::vector<BoundTask> tasks;
  for (std::uint64_t index = 0; index < 4; ++index) {
    Task task = evaluate_at(0);
    task.op = Op::segment;
    SlotTable& slots = sample(index);
    if (index % 2 == 1) {
      task.segment = 1;
      slots.put(5, Boundary{{"cond", bench_.start(index).latents},
                            {"uncond", bench_.start(index).latents}});
      task.inputs = {5};
    }
    tasks.push_back({index, task, &slots});
  }
  (void)run_tasks(runner_, bench_.ctx, tasks);
  EXPECT_EQ(bench_.evaluator.forwards(), 2);
  EXPECT_EQ(bench_.evaluator.segment_rows(), 4);
}

TEST_F(TaskRunnerTest, LeavesTheBoundaryInASlotAsItIs) {
  SlotTable& slots = sample(0);
  const Boundary before = {{"cond", bench_.start(0).latents},
                           {"uncond", bench_.start(0).latents}};
  const Tensor copy = before[0].tensor.clone();
  slots.put(5, before);
  Task task = evaluate_at(0);
  task.op = Op::segment;
  task.segment = 1;
  task.inputs = {5};
  const std::vector<BoundTask> tasks = {{0, task, &slots}};
  (void)run_tasks(runner_, bench_.ctx, tasks);
  const Tensor first = std::get<Boundary>(slots.get(1))[0].tensor.clone();
  (void)run_tasks(runner_, bench_.ctx, tasks);
  EXPECT_TRUE(bytes_equal(before[0].tensor, copy));
  EXPECT_TRUE(bytes_equal(std::get<Boundary>(slots.get(1))[0].tensor, first));
}

TEST_F(TaskRunnerTest, ReturnsResultsInTheOrderOfTheTasks) {
  SlotTable& slots = sample(0);
  slots.put(7, Tensor::zeros(bench_.evaluator.latent_shape(), DType::f32));
  Task step{.id = 9,
            .version = 3,
            .op = Op::step,
            .to = 1,
            .inputs = {0, 7},
            .outputs = {8}};
  const std::vector<BoundTask> tasks = {{0, evaluate_at(0), &slots},
                                        {0, step, &slots}};
  const auto results = run_tasks(runner_, bench_.ctx, tasks);
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].id, 1U);
  EXPECT_EQ(results[1].id, 9U);
  EXPECT_EQ(results[1].version, 3U);
}

TEST_F(TaskRunnerTest, WritesNoSlotBeforeAllTasksAreDone) {
  // A task that runs twice may be late: what stands in its slots is complete,
  // and must not be replaced by what is still to come on a device.
  struct Watching : ToyEvaluator {
    void evaluate(ExecContext& ctx, std::span<EvaluateRow> rows) override {
      for (const Slot slot : {8U, 9U}) {
        EXPECT_FALSE(slots->find(slot).has_value()) << slot;
      }
      ToyEvaluator::evaluate(ctx, rows);
    }
    SlotTable* slots = nullptr;
  };
  SlotTable& slots = sample(0);
  slots.put(7, Tensor::zeros(bench_.evaluator.latent_shape(), DType::f32));
  Watching network;
  network.slots = &slots;
  TaskRunner runner(bench_.schedule, network, bench_.noise, {});
  const Task step{
      .id = 2, .op = Op::step, .to = 1, .inputs = {0, 7}, .outputs = {8}};
  const Task combine{
      .id = 3, .op = Op::combine, .inputs = {7, 7}, .outputs = {9}};
  const std::vector<BoundTask> tasks = {
      {0, step, &slots}, {0, combine, &slots}, {0, evaluate_at(0), &slots}};
  (void)run_tasks(runner, bench_.ctx, tasks);
  for (const Slot slot : {1U, 8U, 9U}) {
    EXPECT_TRUE(slots.find(slot).has_value()) << slot;
  }
}

TEST_F(TaskRunnerTest, GoesOnToTheStepWithTheBytesOfATaskOfItsOwn) {
  SlotTable& slots = sample(2);
  const Task step{
      .id = 2, .op = Op::step, .to = 1, .inputs = {0, 1}, .outputs = {2}};
  const Task combine{
      .id = 3, .op = Op::combine, .inputs = {1, 3}, .outputs = {4}};
  const Task step_guided{
      .id = 4, .op = Op::step, .to = 1, .inputs = {0, 4}, .outputs = {5}};
  slots.put(3, bench_.start(9).latents);
  for (const Task& task : {evaluate_at(0), step, combine, step_guided}) {
    const std::vector<BoundTask> alone = {{2, task, &slots}};
    (void)run_tasks(runner_, bench_.ctx, alone);
  }
  Task call = evaluate_at(0);
  call.outputs = {11, 12};
  const Task guided_call{.id = 6,
                         .op = Op::combine,
                         .to = 1,
                         .inputs = {1, 3, 0},
                         .outputs = {14, 15}};
  const std::vector<BoundTask> joined = {{2, call, &slots},
                                         {2, guided_call, &slots}};
  EXPECT_EQ(run_tasks(runner_, bench_.ctx, joined).size(), 2U);
  for (const auto& [one, other] : {std::pair{1U, 11U}, {4U, 14U}}) {
    EXPECT_TRUE(bytes_equal(std::get<Tensor>(slots.get(one)),
                            std::get<Tensor>(slots.get(other))));
  }
  for (const auto& [one, other] : {std::pair{2U, 12U}, {5U, 15U}}) {
    EXPECT_TRUE(bytes_equal(std::get<SolverState>(slots.get(one)).latents,
                            std::get<SolverState>(slots.get(other)).latents));
  }
}

TEST_F(TaskRunnerTest, DecodesTheLatentsOfAState) {
  SlotTable& slots = sample(4);
  const Task decode{.id = 1, .op = Op::decode, .inputs = {0}, .outputs = {1}};
  const std::vector<BoundTask> tasks = {{4, decode, &slots}};
  (void)run_tasks(runner_, bench_.ctx, tasks);
  EXPECT_TRUE(bytes_equal(std::get<Tensor>(slots.get(1)),
                          pixel_bytes(bench_.start(4).latents)));
}

TEST_F(TaskRunnerTest, FindsAPixelThatIsNotFinite) {
  SlotTable& slots = sample(4);
  SolverState state = bench_.start(4);
  state.latents = state.latents.clone();
  state.latents.data<float>()[1] = std::numeric_limits<float>::infinity();
  slots.put(5, state);
  const Task decode{.id = 1, .op = Op::decode, .inputs = {5}, .outputs = {1}};
  const std::vector<BoundTask> tasks = {{4, decode, &slots}};
  try {
    (void)run_tasks(runner_, bench_.ctx, tasks);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::non_finite);
  }
}

TEST_F(TaskRunnerTest, ReportsAStateThatIsNotFiniteWithSampleAndStep) {
  struct Failing : ToyEvaluator {
    void evaluate(ExecContext& ctx, std::span<EvaluateRow> rows) override {
      ToyEvaluator::evaluate(ctx, rows);
      if (++calls_ == 3) {
        rows[0].output.data<float>()[2] =
            std::numeric_limits<float>::quiet_NaN();
      }
    }
    int calls_ = 0;
  };
  for (const MethodKind kind : {MethodKind::sequential, MethodKind::picard}) {
    Failing network;
    const MethodOptions options{.kind = kind, .window_size = 1};
    TaskRunner runner(bench_.schedule, network, bench_.noise, options);
    const auto method = make_method(options, bench_.schedule);
    try {
      (void)run_local(*method, runner, bench_.ctx, 17, bench_.start(17));
      FAIL() << "NaN went through";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::non_finite);
      EXPECT_NE(std::string(error.what()).find("sample 17"), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("step 3 of 6"),
                std::string::npos);
    }
  }
}

/// Cannot say where a NaN comes from.
class SegmentOwner final : public ToyEvaluator {
 public:
  explicit SegmentOwner(Errc code) : code_(code) {}
  std::string first_non_finite(ExecContext& /*ctx*/,
                               const EvaluateRow& /*row*/) override {
    if (code_ == Errc::out_of_memory) {
      throw std::bad_alloc();
    }
    throw Error(code_, "segment", "has no embedding");
  }

 private:
  Errc code_;
};

/// The error that a NaN in sample 17 ends with.
Errc code_of_nan(Bench& bench, Errc diagnosis, const MethodOptions& options) {
  SegmentOwner owner(diagnosis);
  owner.strength[17] = std::numeric_limits<float>::quiet_NaN();
  TaskRunner runner(bench.schedule, owner, bench.noise, options);
  const auto method = make_method(options, bench.schedule);
  try {
    (void)run_local(*method, runner, bench.ctx, 17, bench.start(17));
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "NaN went through";
  return Errc::internal;
}

TEST_F(TaskRunnerTest, ANaNIsTheSamplesFaultWhereNobodyCanSayWhichBlocks) {
  for (const MethodOptions& options : method_cases()) {
    Bench bench(steps_for(options, bench_.calls()));
    for (const Errc code :
         {Errc::invalid_argument, Errc::device_full, Errc::out_of_memory}) {
      EXPECT_EQ(code_of_nan(bench, code, options), Errc::non_finite);
    }
    // It may have made the NaN, and another device restarts the sample.
    EXPECT_EQ(code_of_nan(bench, Errc::device_lost, options),
              Errc::device_lost);
  }
}

TEST_F(TaskRunnerTest, RefusesASlotOfTheWrongKind) {
  SlotTable& slots = sample(0);
  const Task step{
      .id = 1, .op = Op::step, .to = 1, .inputs = {0, 0}, .outputs = {1}};
  const std::vector<BoundTask> tasks = {{0, step, &slots}};
  EXPECT_THROW((void)run_tasks(runner_, bench_.ctx, tasks), Error);
}

TEST(SlotTable, SaysWhichSlotIsEmpty) {
  const SlotTable slots;
  try {
    (void)slots.get(3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("slot 3"), std::string::npos);
  }
}

TEST(SlotTable, StaysErasedWhenATaskThatRanTwiceWritesLate) {
  SlotTable slots;
  slots.put(2, Tensor::zeros(Shape{1}, DType::f32));
  const std::vector<Slot> gone = {2};
  slots.erase(gone);
  slots.put(2, Tensor::zeros(Shape{1}, DType::f32));
  EXPECT_EQ(slots.size(), 0U);
}

TEST(Ddpm, ReachesTheMomentsOfAGaussianTarget) {
  // Data N(µ, s²) per element has the closed-form epsilon below; with many
  // steps ancestral sampling gives the data's mean and variance back.
  constexpr double kMean = 0.3;
  constexpr double kVariance = 0.25;
  struct Gaussian : ToyEvaluator {
    Gaussian(const Schedule& schedule_used, Shape shape)
        : ToyEvaluator(shape, 1), schedule(schedule_used) {}
    void evaluate(ExecContext& /*ctx*/, std::span<EvaluateRow> rows) override {
      for (EvaluateRow& row : rows) {
        int call = 0;
        while (schedule.timestep(call) != row.timestep) {
          ++call;
        }
        const double abar = std::pow(schedule.level(call).alpha, 2);
        const double total = abar * kVariance + 1 - abar;
        for (std::size_t i = 0; i < row.output.span<float>().size(); ++i) {
          const double x = row.latents.span<float>()[i];
          row.output.span<float>()[i] = static_cast<float>(
              std::sqrt(1 - abar) * (x - std::sqrt(abar) * kMean) / total);
        }
      }
    }
    const Schedule& schedule;
  };
  ScheduleOptions options = steps(200, Solver::ddpm);
  options.variance_type = VarianceType::fixed_large;
  Bench bench(options, Shape{1, 96, 96});
  Gaussian network(bench.schedule, Shape{1, 96, 96});
  const MethodOptions method_options{
      .kind = MethodKind::picard, .window_size = 8, .tolerance = 0.01};
  TaskRunner runner(bench.schedule, network, bench.noise, method_options);
  const auto method = make_method(method_options, bench.schedule);
  const Tensor latents =
      run_local(*method, runner, bench.ctx, 0, bench.start(0)).latents;
  double mean = 0;
  double square = 0;
  for (const float value : latents.span<float>()) {
    mean += static_cast<double>(value);
    square += static_cast<double>(value) * static_cast<double>(value);
  }
  mean /= static_cast<double>(latents.num_elements());
  square /= static_cast<double>(latents.num_elements());
  EXPECT_NEAR(mean, kMean, 0.02);
  EXPECT_NEAR(square - mean * mean, kVariance, 0.02);
}

}  // namespace
}  // namespace troupe::samplers::testing

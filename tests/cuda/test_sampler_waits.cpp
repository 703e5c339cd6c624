#include <algorithm>

#include "samplers/parallel/op_run.h"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/sampler_support.h"
#include "tests/parallel/run_local.h"

// What the host asks of a GPU while samples are stepped. The emulator counts.

namespace troupe::samplers::testing {
namespace {

using emulator::Counters;
using kernels::kGpu;

Counters now() { return emulator::counters(0); }

/// Tensors of `next` that `before` does not hold: what a step has made.
std::uint64_t new_tensors(const SolverState& before, const SolverState& next) {
  std::vector<const std::byte*> known;
  for (const Tensor& tensor : tensors_of(before)) {
    known.push_back(tensor.bytes().data());
  }
  std::uint64_t count = 0;
  for (const Tensor& tensor : tensors_of(next)) {
    const std::byte* first = tensor.bytes().data();
    if (std::find(known.begin(), known.end(), first) == known.end()) {
      known.push_back(first);
      ++count;
    }
  }
  return count;
}

/// All but those that take a quantile on the host.
std::vector<SolverCase> queued_cases() {
  std::vector<SolverCase> cases = solver_cases(5);
  std::erase_if(cases,
                [](const SolverCase& c) { return c.options.thresholding; });
  return cases;
}

class SolverWaits : public ::testing::TestWithParam<SolverCase> {};

TEST_P(SolverWaits, AStepAllocatesItsResultsAndWaitsForNothing) {
  ExecContext gpu(1, kGpu);
  Bench bench(GetParam().options);
  const SolverState start = upload(gpu, bench.start(1));
  const Tensor output = kernels::upload(
      gpu,
      kernels::random({bench.evaluator.out_channels(), 3, 5}, DType::f32, 7));
  // The first run asks for the workspace and pinned memory.
  for (const bool is_warm : {false, true}) {
    SolverState state = start;
    for (int call = 0; call < bench.calls(); ++call) {
      const Counters before = now();
      SolverState next = step(gpu, bench.schedule, call, call + 1, state,
                              output, 1, bench.noise);
      const Counters after = now();
      EXPECT_EQ(after.host_waits, before.host_waits);
      EXPECT_EQ(after.pageable_copies, before.pageable_copies);
      if (is_warm) {
        EXPECT_EQ(after.pinned_changes, before.pinned_changes);
        EXPECT_EQ(after.allocations - before.allocations,
                  new_tensors(state, next));
        EXPECT_EQ(after.frees, before.frees);
      }
      state = std::move(next);
    }
  }
}

TEST_P(SolverWaits, ASweepOnlyQueues) {
  ExecContext gpu(1, kGpu);
  Bench bench(GetParam().options);
  const MethodOptions options = picard(4);
  TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
  // Slots 0 to 4 hold the points before the round.
  constexpr Slot kFirstOutput = 5;
  constexpr Slot kFirstSwept = 9;
  SlotTable slots;
  slots.put(0, upload(gpu, bench.start(1)));
  std::vector<BoundTask> round;
  for (Slot point = 0; point < 4; ++point) {
    slots.put(point + 1, upload(gpu, bench.start(2)));
    slots.put(kFirstOutput + point,
              kernels::upload(
                  gpu, kernels::random({bench.evaluator.out_channels(), 3, 5},
                                       DType::f32, point)));
    const int call = static_cast<int>(point);
    Task sweep = task_of(Op::sweep, call, call + 1,
                         {point == 0 ? 0 : kFirstSwept + point - 1, point,
                          point + 1, kFirstOutput + point});
    sweep.outputs = {kFirstSwept + point};
    sweep.coefficients = sweep_coefficients(options, bench.schedule, call);
    round.push_back({1, std::move(sweep), &slots});
  }
  // The first run asks for the workspace and pinned memory.
  (void)run_tasks(runner, gpu, round);
  const Counters before = now();
  const auto queued = runner.queue(gpu, round);
  EXPECT_EQ(now().host_waits, before.host_waits);
  EXPECT_EQ(now().pageable_copies, before.pageable_copies);
  for (const TaskResult& result : runner.finish(*queued)) {
    EXPECT_EQ(result.scalars.size(), 2U);
  }
  EXPECT_EQ(now().host_waits - before.host_waits, 1U);
  EXPECT_EQ(now().pageable_copies, before.pageable_copies);
  EXPECT_EQ(now().pinned_changes, before.pinned_changes);
}

INSTANTIATE_TEST_SUITE_P(Solvers, SolverWaits,
                         ::testing::ValuesIn(queued_cases()),
                         [](const auto& item) { return item.param.name; });

/// The tasks of `samples` samples at the start of a run, and their slots.
struct Work {
  std::vector<SlotTable> slots;
  std::vector<BoundTask> tasks;
};

/// One step per sample, or the sweeps of a window; a sweep reads the output of
/// the sweep before.
Work work_of(ExecContext& ctx, Bench& bench, std::size_t samples, int window,
             Op op) {
  Work work{std::vector<SlotTable>(samples), {}};
  for (std::size_t s = 0; s < samples; ++s) {
    work.slots[s].put(0, upload(ctx, bench.start(s)));
    for (int call = 0; call < window; ++call) {
      const auto i = static_cast<Slot>(call);
      work.slots[s].put(i + 1, upload(ctx, bench.start(s + i + 1)));
      work.slots[s].put(100 + i,
                        kernels::upload(ctx, bench.start(9 + i).latents));
      Task task{.id = i,
                .op = op,
                .from = call,
                .to = call + 1,
                .inputs = {0, 100},
                .outputs = {200 + i}};
      if (op == Op::sweep) {
        task.inputs = {call == 0 ? 0 : 199 + i, i, i + 1, 100 + i};
        task.coefficients = sweep_coefficients(picard(6), bench.schedule, call);
      }
      work.tasks.push_back({s, std::move(task), &work.slots[s]});
    }
  }
  return work;
}

TEST(TaskWaits, StepsAndSweepsHandedOverTogetherAreWaitedForOnce) {
  ExecContext gpu(1, kGpu);
  Bench bench(steps(8));
  PortedEvaluator network(bench.evaluator);
  TaskRunner runner(bench.schedule, network, bench.noise, picard(6));
  std::vector<std::uint64_t> waits;
  for (const Op op : {Op::step, Op::sweep}) {
    for (const std::size_t samples : {1, 3}) {
      for (const int window : {1, 6}) {
        Work work =
            work_of(gpu, bench, samples, op == Op::step ? 1 : window, op);
        (void)run_tasks(runner, gpu, work.tasks);  // the workspace grows
        gpu.synchronize();
        const Counters before = now();
        (void)run_tasks(runner, gpu, work.tasks);
        EXPECT_EQ(now().pageable_copies, before.pageable_copies);
        waits.push_back(now().host_waits - before.host_waits);
      }
    }
  }
  // The end of the run, with what was read back before it.
  for (const std::uint64_t count : waits) {
    EXPECT_EQ(count, 1U);
  }
}

}  // namespace
}  // namespace troupe::samplers::testing

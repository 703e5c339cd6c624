#include <algorithm>

#include "samplers/parallel/sweep.h"
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
  std::vector<SolverCase> cases = solver_cases(4);
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
  SweepInput input{.schedule = bench.schedule,
                   .options = options,
                   .noise = bench.noise,
                   .sample_index = 1,
                   .from = 0,
                   .states = {},
                   .outputs = {},
                   .num_guesses = 0};
  const SolverState start = upload(gpu, bench.start(1));
  SolverState guess;
  guess.latents = upload(gpu, bench.start(2)).latents;
  input.states = {start, guess, guess, guess, guess};
  for (std::uint64_t i = 0; i < 4; ++i) {
    input.outputs.push_back(kernels::upload(
        gpu, kernels::random({bench.evaluator.out_channels(), 3, 5}, DType::f32,
                             i)));
  }
  {
    kernels::Readings warm(gpu, 12);
    (void)sweep_window(gpu, input, warm);
    (void)warm.wait();
  }
  kernels::Readings readings(gpu, 12);
  const Counters before = now();
  const SweepOutput output = sweep_window(gpu, input, readings);
  EXPECT_EQ(now().host_waits, before.host_waits);
  EXPECT_EQ(now().pageable_copies, before.pageable_copies);
  const auto scalars = sweep_scalars(input, output, readings.wait());
  EXPECT_EQ(scalars.size(), 8U);
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

/// A sweep over a window, or a step, of each sample.
Work work_of(ExecContext& ctx, Bench& bench, std::size_t samples, int window,
             Op op) {
  Work work{std::vector<SlotTable>(samples), {}};
  const auto size = static_cast<Slot>(window);
  for (std::size_t s = 0; s < samples; ++s) {
    Task task{.id = s, .op = op, .from = 0, .to = window};
    for (Slot i = 0; i <= size; ++i) {
      if (op == Op::sweep || i == 0) {
        work.slots[s].put(i, upload(ctx, bench.start(s + i)));
        task.inputs.push_back(i);
      }
    }
    for (Slot i = 0; i < size; ++i) {
      work.slots[s].put(100 + i,
                        kernels::upload(ctx, bench.start(9 + i).latents));
      task.inputs.push_back(100 + i);
      task.outputs.push_back(200 + i);
    }
    work.tasks.push_back({s, std::move(task), &work.slots[s]});
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

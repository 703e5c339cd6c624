#include "kernels/core/pixel_bytes.h"
#include "kernels/elementwise.h"
#include "tests/cuda/sampler_support.h"
#include "tests/parallel/run_local.h"

namespace troupe::samplers::testing {
namespace {

using kernels::kGpu;

class CudaSamplers : public kernels::CudaTest,
                     public ::testing::WithParamInterface<SolverCase> {
 protected:
  [[nodiscard]] const ScheduleOptions& options() const {
    return GetParam().options;
  }
};

TEST_P(CudaSamplers, StepsHaveTheBytesOfTheCpu) {
  ExecContext gpu(1, kGpu);
  Bench bench(options(), Shape{2, 3, 7});
  SolverState state = bench.start(5);
  SolverState there = upload(gpu, state);
  for (int call = 0; call < bench.calls(); ++call) {
    const Tensor input =
        scale_model_input(bench.ctx, bench.schedule, call, state.latents);
    kernels::expect_same_bits(
        kernels::download(gpu, scale_model_input(gpu, bench.schedule, call,
                                                 upload(gpu, state).latents)),
        input);
    std::vector<EvaluateRow> rows(1);
    rows[0] = {
        .sample_index = 5,
        .timestep = bench.schedule.timestep(call),
        .latents = input,
        .output = Tensor({bench.evaluator.out_channels(), 3, 7}, DType::f32)};
    bench.evaluator.evaluate(bench.ctx, rows);
    state = step(bench.ctx, bench.schedule, call, call + 1, state,
                 rows[0].output, 5, bench.noise);
    there = step(gpu, bench.schedule, call, call + 1, there,
                 kernels::upload(gpu, rows[0].output), 5, bench.noise);
    const std::vector<Tensor> got = tensors_of(there);
    const std::vector<Tensor> want = tensors_of(state);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].device(), kGpu);
      kernels::expect_same_bits(kernels::download(gpu, got[i]), want[i]);
    }
    EXPECT_EQ(there.history_calls, state.history_calls);
    EXPECT_EQ(there.order, state.order);
  }
}

TEST_P(CudaSamplers, GuessesAndCleanSamplesHaveTheBytesOfTheCpu) {
  ExecContext gpu(1, kGpu);
  Bench bench(options(), Shape{2, 3, 7});
  const Tensor x = bench.start(5).latents;
  Tensor output({bench.evaluator.out_channels(), 3, 7}, DType::f32);
  bench.noise.initial(6, output);
  const Tensor x_there = kernels::upload(gpu, x);
  const Tensor output_there = kernels::upload(gpu, output);
  for (int call = 0; call + 1 < bench.calls(); ++call) {
    kernels::expect_same_bits(
        kernels::download(
            gpu, denoised(gpu, bench.schedule, call, x_there, output_there)),
        denoised(bench.ctx, bench.schedule, call, x, output));
    kernels::expect_same_bits(
        kernels::download(gpu, extrapolate(gpu, bench.schedule, call, call + 2,
                                           x_there, output_there)),
        extrapolate(bench.ctx, bench.schedule, call, call + 2, x, output));
  }
}

TEST_P(CudaSamplers, PicardWithToleranceZeroIsSequential) {
  ExecContext gpu(1, kGpu);
  Bench bench(options());
  PortedEvaluator network(bench.evaluator);
  const Tensor cpu = bench.run({}, 3).latents;
  std::vector<Tensor> on_gpu;
  MethodOptions carried = picard(3);
  carried.carry = Carry::coefficient;
  for (const MethodOptions& method_options :
       {MethodOptions{}, picard(4), carried,
        picard(2, 0, InitialGuess::constant_x0)}) {
    TaskRunner runner(bench.schedule, network, bench.noise, method_options);
    const auto method = make_method(method_options, bench.schedule);
    const SolverState last =
        run_local(*method, runner, gpu, 3, bench.start(3));  // from the host
    last.latents.check_on_host("the result");
    on_gpu.push_back(last.latents);
  }
  kernels::expect_same_bits(on_gpu[0], cpu);
  for (const Tensor& latents : on_gpu) {
    kernels::expect_same_bits(latents, on_gpu[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Solvers, CudaSamplers,
                         ::testing::ValuesIn(solver_cases(5)),
                         [](const auto& item) { return item.param.name; });

class CudaTasks : public kernels::CudaTest {
 protected:
  Bench bench_{steps(6)};
  PortedEvaluator network_{bench_.evaluator};
};

TEST_F(CudaTasks, EveryMethodHasTheBytesOfTheCpu) {
  ExecContext gpu(1, kGpu);
  for (const MethodOptions& options : method_cases()) {
    Bench bench(steps_for(options, 6));
    PortedEvaluator network(bench.evaluator);
    TaskRunner runner(bench.schedule, network, bench.noise, options);
    const auto method = make_method(options, bench.schedule);
    // Sums have another order here, so a method with a tolerance might accept
    // elsewhere. Weights of taa and numbers of speculative are rounded, so they
    // are nearly always the same, but need not be. In these cases all are.
    kernels::expect_same_bits(
        run_local(*method, runner, gpu, 2, bench.start(2)).latents,
        bench.run(options, 2).latents);
  }
}

/// Runs a method with each group of tasks on the next context: all that a task
/// reads was made elsewhere.
Tensor run_in_turns(Method& method, TaskRunner& runner,
                    std::span<ExecContext* const> contexts,
                    SolverState initial) {
  SlotTable slots;
  slots.put(kInitialSlot, std::move(initial));
  std::size_t turn = 0;
  while (!method.done()) {
    for (Task& task : method.ready(samplers::kNothingAhead)) {
      const std::vector<BoundTask> one = {{2, std::move(task), &slots}};
      const auto results =
          run_tasks(runner, *contexts[turn++ % contexts.size()], one);
      if (const auto dead = method.apply(results[0])) {
        slots.erase(*dead);
      }
    }
  }
  return std::get<SolverState>(slots.get(method.result_slot())).latents;
}

TEST_F(CudaTasks, SlotsCrossBetweenQueuesOfOneGpu) {
  ExecContext first(1, kGpu);
  ExecContext second(1, kGpu);
  ExecContext* const contexts[] = {&first, &second, &first};
  for (const MethodOptions& options : method_cases()) {
    Bench bench(steps_for(options, 6));
    PortedEvaluator network(bench.evaluator);
    TaskRunner runner(bench.schedule, network, bench.noise, options);
    const auto method = make_method(options, bench.schedule);
    kernels::expect_same_bits(
        run_in_turns(*method, runner, contexts, bench.start(2)),
        bench.run(options, 2).latents);
  }
}

/// A step at call 0 from slots 0 and 7.
Task first_step() {
  return {.id = 1, .op = Op::step, .to = 1, .inputs = {0, 7}, .outputs = {8}};
}

/// Lets go of what another context wrote while the step that reads it waits in
/// the queue.
class ErasingEvaluator : public PortedEvaluator {
 public:
  ErasingEvaluator(ToyEvaluator& inner, SlotTable& slots, ExecContext& writer)
      : PortedEvaluator(inner), slots_(slots), writer_(writer) {}
  void evaluate(ExecContext& ctx, std::span<EvaluateRow> rows) override {
    const Slot gone[] = {0, 7};
    slots_.erase(gone);
    writer_.synchronize();
    PortedEvaluator::evaluate(ctx, rows);
  }

 private:
  SlotTable& slots_;
  ExecContext& writer_;
};

TEST_F(CudaTasks, OperandsOutliveTheirSlotsUntilTheWorkIsDone) {
  ExecContext writer(1, kGpu);
  ExecContext reader(1, kGpu);
  const SolverState start = bench_.start(0);
  const Tensor output = bench_.start(1).latents;
  const Tensor want =
      step(bench_.ctx, bench_.schedule, 0, 1, start, output, 0, bench_.noise)
          .latents;
  const Task evaluate{
      .id = 2, .op = Op::evaluate, .to = 1, .inputs = {9}, .outputs = {10}};
  for (int i = 0; i < 20; ++i) {  // the queues take turns as they please
    SlotTable slots;
    ErasingEvaluator network(bench_.evaluator, slots, writer);
    slots.put(0, upload(writer, start));
    slots.put(7, kernels::upload(writer, output));
    slots.put(9, start);
    writer.synchronize();
    TaskRunner runner(bench_.schedule, network, bench_.noise, {});
    const std::vector<BoundTask> tasks = {{0, first_step(), &slots},
                                          {0, evaluate, &slots}};
    (void)run_tasks(runner, reader, tasks);
    kernels::expect_same_bits(
        kernels::download(reader, std::get<SolverState>(slots.get(8)).latents),
        want);
  }
}

TEST_F(CudaTasks, KeepStatesOnTheDeviceUntilTheLast) {
  ExecContext gpu(1, kGpu);
  SlotTable slots;
  TaskRunner runner(bench_.schedule, network_, bench_.noise, {});
  slots.put(7, bench_.start(1).latents);
  for (int call = 0; call < bench_.calls(); ++call) {
    slots.put(0, bench_.start(0));
    Task task = first_step();
    task.from = call;
    task.to = call + 1;
    const std::vector<BoundTask> tasks = {{0, task, &slots}};
    (void)run_tasks(runner, gpu, tasks);
    const bool is_last = task.to == bench_.calls();
    EXPECT_EQ(std::get<SolverState>(slots.get(8)).latents.device(),
              is_last ? Device{} : kGpu);
  }
}

TEST_F(CudaTasks, DecodesToTheHost) {
  ExecContext gpu(1, kGpu);
  SlotTable slots;
  slots.put(0, upload(gpu, bench_.start(4)));
  TaskRunner runner(bench_.schedule, network_, bench_.noise, {});
  const Task decode{.id = 1, .op = Op::decode, .inputs = {0}, .outputs = {1}};
  const std::vector<BoundTask> tasks = {{4, decode, &slots}};
  (void)run_tasks(runner, gpu, tasks);
  EXPECT_TRUE(bytes_equal(std::get<Tensor>(slots.get(1)),
                          pixel_bytes(bench_.start(4).latents)));
}

TEST_F(CudaTasks, ReportTheFirstStateThatIsNotFinite) {
  struct Failing : PortedEvaluator {
    using PortedEvaluator::PortedEvaluator;
    void evaluate(ExecContext& ctx, std::span<EvaluateRow> rows) override {
      PortedEvaluator::evaluate(ctx, rows);
      for (EvaluateRow& row : rows) {
        if (++calls == 3) {
          Tensor bad = kernels::download(ctx, row.output);
          bad.data<float>()[2] = std::numeric_limits<float>::quiet_NaN();
          kernels::copy(ctx, bad, row.output);
        }
      }
    }
    std::string first_non_finite(ExecContext& /*ctx*/,
                                 const EvaluateRow& row) override {
      return "block at timestep " + std::to_string(row.timestep);
    }
    int calls = 0;
  };
  ExecContext gpu(1, kGpu);
  // In a window of four the third row is the third point.
  for (const MethodOptions& options : {MethodOptions{}, picard(4)}) {
    Failing network(bench_.evaluator);
    TaskRunner runner(bench_.schedule, network, bench_.noise, options);
    const auto method = make_method(options, bench_.schedule);
    try {
      (void)run_local(*method, runner, gpu, 17, bench_.start(17));
      FAIL() << "NaN went through";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::non_finite);
      const std::string text = error.what();
      EXPECT_NE(text.find("sample 17"), std::string::npos) << text;
      EXPECT_NE(text.find("step 3 of 6"), std::string::npos) << text;
      EXPECT_NE(text.find("block at timestep " +
                          std::to_string(bench_.schedule.timestep(2))),
                std::string::npos)
          << text;
    }
  }
}

TEST_F(CudaTasks, GuidanceHasTheBytesOfTheCpu) {
  ExecContext gpu(1, kGpu);
  ExecContext cpu;
  const Tensor cond = kernels::random({8, 5, 7}, DType::f32, 1);
  const Tensor uncond = kernels::random({8, 5, 7}, DType::f32, 2);
  for (const std::int64_t guided : {0, 3, 8}) {
    Tensor want(cond.shape(), DType::f32);
    kernels::guide(cpu, cond, uncond, 4.3, guided, want);
    Tensor got = kernels::poisoned(gpu, cond.shape(), DType::f32);
    kernels::guide(gpu, kernels::upload(gpu, cond),
                   kernels::upload(gpu, uncond), 4.3, guided, got);
    kernels::expect_same_bits(kernels::download(gpu, got), want);
  }
}

}  // namespace
}  // namespace troupe::samplers::testing

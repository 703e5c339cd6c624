#include "samplers/parallel/op_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "actors/packer.h"
#include "kernels/core/error.h"
#include "samplers/parallel/op_run.h"
#include "tests/parallel/run_local.h"
#include "tests/parallel/support.h"
#include "tests/simulator/symbols.h"

namespace troupe::samplers::testing {
namespace {

TEST(OpTable, HasANameAndARunInEachRowAndTheStepInItsSlots) {
  std::set<std::string_view> names;
  for (const OpRow& row : kOpTable) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_NE(row.run, nullptr) << row.name;
    for (const Limits& limits :
         {row.inputs.number, row.outputs.number, row.coefficients}) {
      EXPECT_LE(limits.least, limits.most) << row.name;
    }
    EXPECT_LE(row.inputs.number.most, row.inputs.kinds.size()) << row.name;
    EXPECT_LE(row.coefficients.most, kMostCoefficients) << row.name;
    EXPECT_EQ(&*kOpTable.begin() + Op(row).number(), &row);
    if (row.step) {
      EXPECT_LT(row.step->state, row.inputs.number.most) << row.name;
      for (const auto& place : {row.step->model_output, row.step->old_state}) {
        EXPECT_LT(place.value_or(0), row.inputs.number.least) << row.name;
      }
    }
  }
}

// One more op, and no other file knows it.

/// Σ c_i · state i.
void run_blend(const OpRun& run, OpTasks tasks) {
  const BoundTask& bound = *tasks.front();
  SolverState sum;
  for (std::size_t i = 0; i < bound.task.inputs.size(); ++i) {
    const Tensor latents = run.latents(bound, i);
    if (i == 0) {
      sum.latents = Tensor::zeros(latents.shape(), DType::f32);
    }
    for (std::size_t k = 0; k < latents.span<float>().size(); ++k) {
      sum.latents.span<float>()[k] +=
          static_cast<float>(bound.task.coefficients.at(i)) *
          latents.span<float>()[k];
    }
  }
  run.write_state(bound, bound.task.outputs.at(0), bound.task.to, sum);
}

constexpr OpRow kBlend{.name = "blend",
                       .inputs = {{1, 4}, {}},
                       .outputs = {{1, 1}, {ValueKind::state}},
                       .coefficients = {1, 4},
                       .run = run_blend};

Task blend(const Coefficients& coefficients) {
  return {.id = 1,
          .op = Op(kBlend),
          .to = 1,
          .inputs = {0, 1},
          .outputs = {2},
          .coefficients = coefficients};
}

TEST(OneMoreOp, RunsBesideTheOthers) {
  Bench bench(steps(4));
  TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, {});
  SlotTable slots;
  slots.put(0, bench.start(3));
  slots.put(1, bench.start(4));
  const Task step{
      .id = 2, .op = Op::evaluate, .to = 1, .inputs = {2}, .outputs = {3, 4}};
  const std::vector<BoundTask> tasks = {{3, step, &slots},
                                        {3, blend({0.25, -2}), &slots}};
  EXPECT_TRUE(run_tasks(runner, bench.ctx, tasks).at(1).scalars.empty());
  const auto sum = std::get<SolverState>(slots.get(2)).latents;
  const Tensor one = bench.start(3).latents;
  const Tensor other = bench.start(4).latents;
  for (std::size_t k = 0; k < sum.span<float>().size(); ++k) {
    EXPECT_FLOAT_EQ(sum.span<float>()[k],
                    0.25F * one.span<float>()[k] - 2 * other.span<float>()[k]);
  }
  EXPECT_TRUE(slots.has(4)) << "the evaluation has read it";
}

TEST(OneMoreOp, IsBoundedAndPackedByItsRow) {
  EXPECT_TRUE(is_whole(blend({1, 2, 3, 4})));
  EXPECT_FALSE(is_whole(blend({1, 2, 3, 4, 5})));
  EXPECT_FALSE(is_whole(blend({})));
  EXPECT_FALSE(is_whole(blend({NAN})));
  EXPECT_FALSE(step_of(blend({1, 2})));
  EXPECT_EQ(num_scalars(blend({1, 2})), 0U);
  EXPECT_THROW((void)Op(kBlend).number(), Error);
  actors::Packer packer;
  packer.push({0, {.op = Op::evaluate}});
  packer.push({0, blend({1, 2})});
  EXPECT_EQ(packer.next(8).at(0).task.op, Op(kBlend)) << "it is not heavy";
}

TEST(OneMoreOp, HasASymbolOfItsNameInputsAndCoefficients) {
  actors::simulator::SymbolTable table(5);
  (void)table.find(0);
  (void)table.put(1, 64);
  const auto symbol = [&](const Task& task) {
    return compute(task, table, {})->outputs.at(0);
  };
  EXPECT_EQ(kind_of(symbol(blend({1, 2}))), ValueKind::state);
  EXPECT_EQ(symbol(blend({1, 2})), symbol(blend({1, 2})));
  EXPECT_NE(symbol(blend({1, 2})), symbol(blend({1, 3})));
  Task other = blend({1, 2});
  other.inputs = {1, 0};
  EXPECT_NE(symbol(blend({1, 2})), symbol(other));
  constexpr OpRow kMix{.name = "mix", .outputs = {{1, 1}, {}}};
  other = blend({1, 2});
  other.op = Op(kMix);
  EXPECT_NE(symbol(blend({1, 2})), symbol(other));
}

}  // namespace
}  // namespace troupe::samplers::testing

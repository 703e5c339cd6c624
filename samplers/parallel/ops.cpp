#include <cmath>
#include <utility>

#include "kernels/copy.h"
#include "samplers/parallel/op_run.h"
#include "samplers/solver.h"

// What the ops of op_row.h do; a sweep is in sweep.cpp.

namespace troupe::samplers {

namespace {

Tensor model_input(const OpRun& run, const BoundTask& bound) {
  return scale_model_input(run.ctx, run.schedule, bound.task.from,
                           run.latents(bound, 0));
}

EvaluateRow row_of(const OpRun& run, const BoundTask& bound) {
  const Task& task = bound.task;
  return {.sample_index = bound.sample_index,
          .branch = task.branch,
          .timestep = run.schedule.timestep(task.timestep_call),
          .latents = model_input(run, bound),
          .output = run.new_output()};
}

}  // namespace

void run_evaluate(const OpRun& run, OpTasks tasks) {
  std::vector<EvaluateRow> rows;
  rows.reserve(tasks.size());
  for (const BoundTask* bound : tasks) {
    rows.push_back(row_of(run, *bound));
  }
  run.evaluator.evaluate(run.ctx, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    run.take_step(*tasks[i], rows[i].output);
    run.queued.write(*tasks[i], std::move(rows[i].output));
  }
}

void run_evaluate_cached(const OpRun& run, OpTasks tasks) {
  std::vector<CachedRow> rows;
  rows.reserve(tasks.size());
  for (const BoundTask* bound : tasks) {
    const Task& task = bound->task;
    rows.push_back(
        {row_of(run, *bound), task.coefficients.at(0),
         task.inputs.size() > 1 ? run.cache(*bound, 1) : Boundary()});
  }
  run.evaluator.evaluate_cached(run.ctx, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const BoundTask& bound = *tasks[i];
    run.take_step(bound, rows[i].output);
    // Behind the verdict of the step: the last one has the scalars.
    run.queued.verdicts.push_back(
        {&bound, [reused = rows[i].is_reused ? 1.0 : 0.0](
                     std::span<const double>) { return std::vector{reused}; }});
    run.queued.write(bound, std::move(rows[i].output));
    if (bound.task.outputs.size() > 1) {
      run.queued.write(bound, bound.task.outputs.at(1),
                       std::move(rows[i].cache));
    }
  }
}

void run_segment(const OpRun& run, OpTasks tasks) {
  const int segment = tasks.front()->task.segment;
  const bool last = segment + 1 == run.evaluator.num_segments();
  std::vector<SegmentRow> rows;
  rows.reserve(tasks.size());
  for (const BoundTask* bound : tasks) {
    const Task& task = bound->task;
    rows.push_back(
        {.sample_index = bound->sample_index,
         .timestep = run.schedule.timestep(task.timestep_call),
         .latents = segment > 0 ? Tensor() : model_input(run, *bound),
         .boundary = segment > 0 ? run.boundary(*bound, 0) : Boundary(),
         .skips = task.inputs.size() > 1 ? run.boundary(*bound, 1) : Boundary(),
         .keeps_skips = task.outputs.size() > 1,
         .output = last ? run.new_output() : Tensor()});
  }
  run.evaluator.run_segment(run.ctx, segment, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    run.queued.write(*tasks[i],
                     last ? SlotTable::Value(std::move(rows[i].output))
                          : SlotTable::Value(std::move(rows[i].boundary)));
    if (rows[i].keeps_skips) {
      run.queued.write(*tasks[i], tasks[i]->task.outputs.at(1),
                       std::move(rows[i].skips));
    }
  }
}

void run_combine(const OpRun& run, OpTasks tasks) {
  const BoundTask& bound = *tasks.front();
  Tensor out = run.new_output();
  run.evaluator.combine(run.ctx,
                        run.schedule.timestep(bound.task.timestep_call),
                        run.tensor(bound, 0), run.tensor(bound, 1), out);
  run.take_step(bound, out);
  run.queued.write(bound, std::move(out));
}

void run_step(const OpRun& run, OpTasks tasks) {
  const BoundTask& bound = *tasks.front();
  const bool has_draft = bound.task.inputs.size() > 2;
  run.take_step(bound, run.tensor(bound, 1),
                has_draft ? run.latents(bound, 2) : Tensor());
}

void run_jump(const OpRun& run, OpTasks tasks) {
  const BoundTask& bound = *tasks.front();
  const Task& task = bound.task;
  run.write_state(
      bound, task.outputs.at(0), task.to,
      {.latents = extrapolate(run.ctx, run.schedule, task.from, task.to,
                              run.latents(bound, 0), run.tensor(bound, 1))});
}

void run_carry(const OpRun& run, OpTasks tasks) {
  const BoundTask& bound = *tasks.front();
  const Task& task = bound.task;
  SolverState state = run.state(bound, task.inputs.at(0));
  Tensor sum = run.ctx.empty(state.latents.shape(), state.latents.dtype());
  kernels::add_carry(run.ctx, state.latents, 1.0, run.latents(bound, 1),
                     run.latents(bound, 2), sum);
  state.latents = std::move(sum);
  if (run.schedule.options().solver->begins_at_anchor) {
    state.anchor = {};  // else the next step would begin without the sum
  }
  run.write_state(bound, task.outputs.at(0), task.to, std::move(state));
}

void run_coast(const OpRun& run, OpTasks tasks) {
  const BoundTask& bound = *tasks.front();
  const Task& task = bound.task;
  const double call = task.coefficients.at(0);
  const int num_steps = task.to - task.from;
  const auto num_kept = static_cast<int>(task.outputs.size());
  require(call >= 0 && call < task.from && call == std::floor(call) &&
              num_kept <= num_steps,
          Errc::internal, "coast", "has a wrong number of points");
  const SeenCall seen{static_cast<int>(call), run.latents(bound, 1),
                      run.tensor(bound, 2)};
  std::vector<SolverState> points =
      run.coast(bound, seen, {}, task.from, run.state(bound, task.inputs.at(0)),
                static_cast<std::size_t>(num_steps));
  points.erase(points.begin(), points.end() - num_kept);
  run.write_states(bound, task.to - num_kept + 1, std::move(points));
}

void run_decode(const OpRun& run, OpTasks tasks) {
  const BoundTask& bound = *tasks.front();
  // They are on the host at the end of a run, and a decoder takes them there.
  Tensor latents = run.far_state(bound, bound.task.inputs.at(0)).latents;
  if (latents.device().kind != DeviceKind::cpu) {
    latents = kernels::borrow(run.ctx, latents);
  }
  Tensor pixels;
  run.evaluator.decode(run.ctx, latents, pixels);
  run.queued.write(bound, kernels::read_back(run.ctx, pixels));
  run.queued.outputs.back().is_pixels = true;
}

}  // namespace troupe::samplers

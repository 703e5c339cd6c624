#include "samplers/parallel/task_runner.h"

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "kernels/copy.h"
#include "kernels/core/pixel_bytes.h"
#include "samplers/parallel/queued_tasks.h"

namespace troupe::samplers {
namespace {

/// What a task reads: what stands in the slot, or what a task handed over
/// before it is to write there.
template <typename T>
T read(const BoundTask& bound, Slot slot, const QueuedTasks& queued) {
  SlotTable::Value value = queued.get(bound, slot);
  T* held = std::get_if<T>(&value);
  require(held != nullptr, Errc::internal, "task",
          "a slot holds another kind of value than the task expects");
  return std::move(*held);
}

Tensor read_tensor(ExecContext& ctx, const BoundTask& bound, std::size_t input,
                   const QueuedTasks& queued) {
  return kernels::borrow(
      ctx, read<Tensor>(bound, bound.task.inputs.at(input), queued));
}

SolverState read_state(ExecContext& ctx, const BoundTask& bound, Slot slot,
                       const QueuedTasks& queued) {
  auto state = read<SolverState>(bound, slot, queued);
  for (Tensor* tensor : {&state.latents, &state.anchor, &state.slope}) {
    *tensor = kernels::borrow(ctx, *tensor);
  }
  for (Tensor& tensor : state.history) {
    tensor = kernels::borrow(ctx, tensor);
  }
  return state;
}

/// The latents alone: all that a forward pass wants of a state.
Tensor read_latents(ExecContext& ctx, const BoundTask& bound, std::size_t input,
                    const QueuedTasks& queued) {
  const Slot slot = bound.task.inputs.at(input);
  return kernels::borrow(ctx, read<SolverState>(bound, slot, queued).latents);
}

/// A copy: a network works in place on what crosses a cut, and the slot must
/// keep its bytes.
Boundary read_boundary(ExecContext& ctx, const BoundTask& bound,
                       std::size_t input, const QueuedTasks& queued) {
  auto boundary = read<Boundary>(bound, bound.task.inputs.at(input), queued);
  for (NamedTensor& named : boundary) {
    ctx.keep(named.tensor);
    named.tensor = kernels::clone(ctx, named.tensor);
  }
  return boundary;
}

Tensor output_tensor(ExecContext& ctx, const Evaluator& evaluator) {
  return ctx.empty(
      with_channels(evaluator.latent_shape(), evaluator.out_channels()),
      DType::f32);
}

/// Numbers that the tasks of a run read off their tensors.
std::size_t count_readings(std::span<const BoundTask> tasks) {
  std::size_t count = 0;
  for (const BoundTask& bound : tasks) {
    const Task& task = bound.task;
    if (step_of(task)) {
      ++count;
    } else if (task.op == Op::sweep) {
      count += kReadingsPerPoint;
    }
  }
  return count;
}

}  // namespace

TaskRunner::TaskRunner(const Schedule& schedule, Evaluator& evaluator,
                       NoiseSource& noise, const MethodOptions& options)
    : schedule_(schedule),
      evaluator_(evaluator),
      noise_(noise),
      options_(options) {}

std::unique_ptr<QueuedTasks> TaskRunner::queue(
    ExecContext& ctx, std::vector<BoundTask> tasks,
    const std::function<void(const QueuedTasks&)>& behind) {
  auto queued = std::make_unique<QueuedTasks>(std::move(tasks));
  std::vector<const BoundTask*> rows;
  std::map<int, std::vector<const BoundTask*>> segment_rows;
  if (const std::size_t count = count_readings(queued->tasks); count > 0) {
    queued->readings.emplace(ctx, count);
  }
  for (const BoundTask& bound : queued->tasks) {
    switch (bound.task.op) {
      case Op::evaluate:
        rows.push_back(&bound);
        break;
      case Op::segment:
        segment_rows[bound.task.segment].push_back(&bound);
        break;
      case Op::combine:
        combine(ctx, bound, *queued);
        break;
      case Op::step:
        queue_step(ctx, bound, read_tensor(ctx, bound, 1, *queued), *queued);
        break;
      case Op::sweep:
        queue_sweep(ctx, bound, *queued);
        break;
      case Op::decode:
        decode(ctx, bound, *queued);
        break;
    }
  }
  if (!rows.empty()) {
    evaluate(ctx, rows, *queued);
  }
  for (const auto& [segment, group] : segment_rows) {
    run_segment(ctx, group, *queued);
  }
  if (queued->readings) {
    queued->readings->send();
  }
  if (behind) {
    behind(*queued);
  }
  queued->end = ctx.mark();
  return queued;
}

void TaskRunner::evaluate(ExecContext& ctx,
                          std::span<const BoundTask* const> tasks,
                          QueuedTasks& queued) {
  std::vector<EvaluateRow> rows;
  rows.reserve(tasks.size());
  for (const BoundTask* bound : tasks) {
    const Task& task = bound->task;
    rows.push_back(
        {.sample_index = bound->sample_index,
         .branch = task.branch,
         .timestep = schedule_.timestep(task.timestep_call),
         .latents = scale_model_input(ctx, schedule_, task.from,
                                      read_latents(ctx, *bound, 0, queued)),
         .output = output_tensor(ctx, evaluator_)});
  }
  evaluator_.evaluate(ctx, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (step_of(tasks[i]->task)) {
      queue_step(ctx, *tasks[i], rows[i].output, queued);
    }
    queued.write(*tasks[i], std::move(rows[i].output));
  }
}

void TaskRunner::run_segment(ExecContext& ctx,
                             std::span<const BoundTask* const> tasks,
                             QueuedTasks& queued) {
  const int segment = tasks.front()->task.segment;
  const bool last = segment + 1 == evaluator_.num_segments();
  std::vector<SegmentRow> rows;
  rows.reserve(tasks.size());
  for (const BoundTask* bound : tasks) {
    const Task& task = bound->task;
    SegmentRow row;
    row.sample_index = bound->sample_index;
    row.timestep = schedule_.timestep(task.timestep_call);
    if (segment == 0) {
      row.latents = scale_model_input(ctx, schedule_, task.from,
                                      read_latents(ctx, *bound, 0, queued));
    } else {
      row.boundary = read_boundary(ctx, *bound, 0, queued);
    }
    if (task.inputs.size() > 1) {
      row.skips = read_boundary(ctx, *bound, 1, queued);
    }
    row.keeps_skips = task.outputs.size() > 1;
    if (last) {
      row.output = output_tensor(ctx, evaluator_);
    }
    rows.push_back(std::move(row));
  }
  evaluator_.run_segment(ctx, segment, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (last) {
      queued.write(*tasks[i], std::move(rows[i].output));
    } else {
      queued.write(*tasks[i], std::move(rows[i].boundary));
    }
    if (rows[i].keeps_skips) {
      queued.write(*tasks[i], tasks[i]->task.outputs.at(1),
                   std::move(rows[i].skips));
    }
  }
}

void TaskRunner::combine(ExecContext& ctx, const BoundTask& bound,
                         QueuedTasks& queued) {
  Tensor out = output_tensor(ctx, evaluator_);
  evaluator_.combine(ctx, read_tensor(ctx, bound, 0, queued),
                     read_tensor(ctx, bound, 1, queued), out);
  if (step_of(bound.task)) {
    queue_step(ctx, bound, out, queued);
  }
  queued.write(bound, std::move(out));
}

void TaskRunner::queue_step(ExecContext& ctx, const BoundTask& bound,
                            const Tensor& model_output, QueuedTasks& queued) {
  const Task& task = bound.task;
  SolverState state = read_state(ctx, bound, step_of(task)->state, queued);
  SolverState next = step(ctx, schedule_, task.from, task.to, state,
                          model_output, bound.sample_index, noise_);
  const std::size_t finite = queued.readings->all_finite(next.latents);
  queued.steps.push_back({&bound, std::move(state.latents), finite});
  write_state(ctx, bound, step_of(task)->next_state, task.to, std::move(next),
              queued);
}

void TaskRunner::queue_sweep(ExecContext& ctx, const BoundTask& bound,
                             QueuedTasks& queued) {
  const Task& task = bound.task;
  SweepInput input{.schedule = schedule_,
                   .options = options_,
                   .noise = noise_,
                   .sample_index = bound.sample_index,
                   .call = task.from,
                   .is_first = task.inputs.at(0) == task.inputs.at(1),
                   .state = read_state(ctx, bound, task.inputs.at(0), queued),
                   .old_here = read_latents(ctx, bound, 1, queued),
                   .old_next = read_latents(ctx, bound, 2, queued),
                   .output = read_tensor(ctx, bound, 3, queued),
                   .num_guesses = task.outputs.size() - 1};
  SweepOutput output = sweep_point(ctx, input, *queued.readings);
  for (std::size_t i = 0; i < output.states.size(); ++i) {
    write_state(ctx, bound, task.outputs.at(i), task.to + static_cast<int>(i),
                output.states[i], queued);
  }
  queued.sweeps.push_back({&bound, std::move(input), std::move(output)});
}

void TaskRunner::write_state(ExecContext& ctx, const BoundTask& bound,
                             Slot slot, int point, SolverState state,
                             QueuedTasks& queued) {
  if (point == schedule_.num_model_calls()) {
    state.latents = kernels::read_back(ctx, state.latents);
  }
  queued.write(bound, slot, std::move(state));
}

void TaskRunner::decode(ExecContext& ctx, const BoundTask& bound,
                        QueuedTasks& queued) {
  // They are on the host at the end of a run, and a decoder takes them there.
  Tensor latents =
      read<SolverState>(bound, bound.task.inputs.at(0), queued).latents;
  if (latents.device().kind != DeviceKind::cpu) {
    latents = kernels::borrow(ctx, latents);
  }
  Tensor pixels;
  evaluator_.decode(ctx, latents, pixels);
  queued.write(bound, kernels::read_back(ctx, pixels));
  queued.outputs.back().is_pixels = true;
}

// From here on: what looks at the work once the queue has done it.

std::vector<TaskResult> TaskRunner::finish(ExecContext& ctx,
                                           QueuedTasks& queued) {
  queued.end.wait();
  std::vector<TaskResult> results;
  results.reserve(queued.tasks.size());
  for (const BoundTask& bound : queued.tasks) {
    results.push_back({bound.task.id, bound.task.version, {}});
  }
  if (queued.readings) {
    judge(ctx, queued, results);
  }
  for (QueuedTasks::Output& output : queued.outputs) {
    if (output.is_pixels) {
      output.value = pixel_bytes(std::get<Tensor>(output.value));
    }
    output.slots->put(output.slot, std::move(output.value));
  }
  return results;
}

void TaskRunner::judge(ExecContext& ctx, QueuedTasks& queued,
                       std::span<TaskResult> results) {
  const std::span<const double> values = queued.readings->values();
  for (const QueuedTasks::Step& done : queued.steps) {
    const BoundTask& bound = *done.bound;
    if (values[done.finite] == 0.0) {
      name_block(
          ctx, bound, bound.task.from, done.latents,
          non_finite_error(bound.sample_index, bound.task.from, schedule_));
    }
  }
  for (const QueuedTasks::Sweep& done : queued.sweeps) {
    const auto result =
        static_cast<std::size_t>(done.bound - queued.tasks.data());
    try {
      results[result].scalars = sweep_scalars(done.input, done.output, values);
    } catch (const Error& error) {
      name_output(ctx, *done.bound, done.input, error);
    }
  }
}

void TaskRunner::name_block(ExecContext& ctx, const BoundTask& bound, int call,
                            const Tensor& latents, const Error& error) {
  std::string where;
  try {
    EvaluateRow row;
    row.sample_index = bound.sample_index;
    row.timestep = schedule_.timestep(call);
    row.latents = scale_model_input(ctx, schedule_, call, latents);
    where = evaluator_.first_non_finite(ctx, row);
  } catch (const std::bad_alloc&) {
    // As below.
  } catch (const Error& other) {
    // What runs a segment alone may not have the blocks to look in, or no
    // memory for it: the sample is at fault all the same. A device that fails
    // may have made the NaN.
    if (other.code() == Errc::interrupted ||
        other.code() == Errc::device_lost) {
      throw;
    }
  }
  const std::string cause =
      where.empty() ? "" : "; the first NaN or infinity appears in " + where;
  throw Error(error.code(), error.place(), error.message() + cause,
              error.hint());
}

void TaskRunner::name_output(ExecContext& ctx, const BoundTask& bound,
                             const SweepInput& input, const Error& error) {
  kernels::Readings readings(ctx, 1);
  readings.all_finite(input.output);
  if (readings.wait().front() != 0.0) {
    throw error;
  }
  name_block(ctx, bound, input.call, input.old_here, error);
}

}  // namespace troupe::samplers

#include "samplers/parallel/task_runner.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "kernels/copy.h"
#include "kernels/reduction.h"
#include "samplers/parallel/sweep.h"

namespace troupe::samplers {
namespace {

template <typename T>
T read(const BoundTask& bound, Slot slot) {
  SlotTable::Value value = bound.slots->get(slot);
  T* held = std::get_if<T>(&value);
  require(held != nullptr, Errc::internal, "task",
          "a slot holds another kind of value than the task expects");
  return std::move(*held);
}

Tensor read_tensor(ExecContext& ctx, const BoundTask& bound,
                   std::size_t input) {
  return kernels::borrow(ctx, read<Tensor>(bound, bound.task.inputs.at(input)));
}

SolverState read_state(ExecContext& ctx, const BoundTask& bound, Slot slot) {
  auto state = read<SolverState>(bound, slot);
  for (Tensor* tensor : {&state.latents, &state.anchor, &state.slope}) {
    *tensor = kernels::borrow(ctx, *tensor);
  }
  for (Tensor& tensor : state.history) {
    tensor = kernels::borrow(ctx, tensor);
  }
  return state;
}

/// The latents alone: what a forward pass wants of a state.
Tensor read_latents(ExecContext& ctx, const BoundTask& bound) {
  const Slot slot = bound.task.inputs.at(0);
  return kernels::borrow(ctx, read<SolverState>(bound, slot).latents);
}

/// A copy: a network works in place on what crosses a cut, and the slot must
/// keep its bytes.
Boundary read_boundary(ExecContext& ctx, const BoundTask& bound) {
  auto boundary = read<Boundary>(bound, bound.task.inputs.at(0));
  for (NamedTensor& named : boundary) {
    ctx.keep(named.tensor);
    named.tensor = kernels::clone(ctx, named.tensor);
  }
  return boundary;
}

Tensor output_tensor(ExecContext& ctx, const Evaluator& evaluator) {
  const Shape latents = evaluator.latent_shape();
  return ctx.empty({evaluator.out_channels(), latents[1], latents[2]},
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
      count +=
          kReadingsPerPoint * static_cast<std::size_t>(task.to - task.from);
    }
  }
  return count;
}

}  // namespace

/// What is queued. Slots are written when it is done: a task that runs a second
/// time must not replace a complete value by one that is still to come.
struct TaskRunner::Pending {
  struct Output {
    Slot slot;
    SlotTable* slots;
    SlotTable::Value value;
  };
  struct Step {
    const BoundTask* bound;
    Tensor latents;  ///< that it started from
    SolverState next;
    std::size_t finite;  ///< the reading
  };
  struct Sweep {
    const BoundTask* bound;
    std::size_t result;
    SweepInput input;
    SweepOutput output;
  };
  std::optional<kernels::Readings> readings;
  std::vector<Step> steps;
  std::vector<Sweep> sweeps;
  std::vector<Output> outputs;

  void write(const BoundTask& bound, Slot slot, SlotTable::Value value) {
    outputs.push_back({slot, bound.slots, std::move(value)});
  }
  /// The first output, or the only one.
  void write(const BoundTask& bound, SlotTable::Value value) {
    write(bound, bound.task.outputs.at(0), std::move(value));
  }
};

TaskRunner::TaskRunner(const Schedule& schedule, Evaluator& evaluator,
                       NoiseSource& noise, const MethodOptions& options)
    : schedule_(schedule),
      evaluator_(evaluator),
      noise_(noise),
      options_(options) {}

std::vector<TaskResult> TaskRunner::run(ExecContext& ctx,
                                        std::span<const BoundTask> tasks) {
  std::vector<TaskResult> results;
  results.reserve(tasks.size());
  std::vector<const BoundTask*> rows;
  std::map<int, std::vector<const BoundTask*>> segment_rows;
  Pending pending;
  pending.outputs.reserve(tasks.size());
  if (const std::size_t count = count_readings(tasks); count > 0) {
    pending.readings.emplace(ctx, count);
  }
  for (const BoundTask& bound : tasks) {
    results.push_back({bound.task.id, bound.task.version, {}});
    switch (bound.task.op) {
      case Op::evaluate:
        rows.push_back(&bound);
        break;
      case Op::segment:
        segment_rows[bound.task.segment].push_back(&bound);
        break;
      case Op::combine:
        combine(ctx, bound, pending);
        break;
      case Op::step:
        queue_step(ctx, bound, read_tensor(ctx, bound, 1), pending);
        break;
      case Op::sweep:
        queue_sweep(ctx, bound, results.size() - 1, pending);
        break;
      case Op::decode:
        decode(ctx, bound, pending);
        break;
    }
  }
  if (!rows.empty()) {
    evaluate(ctx, rows, pending);
  }
  for (const auto& [segment, group] : segment_rows) {
    run_segment(ctx, group, pending);
  }
  judge(ctx, pending, results);
  ctx.synchronize();
  for (Pending::Output& output : pending.outputs) {
    output.slots->put(output.slot, std::move(output.value));
  }
  return results;
}

void TaskRunner::evaluate(ExecContext& ctx,
                          std::span<const BoundTask* const> tasks,
                          Pending& pending) {
  std::vector<EvaluateRow> rows;
  rows.reserve(tasks.size());
  for (const BoundTask* bound : tasks) {
    const Task& task = bound->task;
    rows.push_back({.sample_index = bound->sample_index,
                    .branch = task.branch,
                    .timestep = schedule_.timestep(task.timestep_call),
                    .latents = scale_model_input(ctx, schedule_, task.from,
                                                 read_latents(ctx, *bound)),
                    .output = output_tensor(ctx, evaluator_)});
  }
  evaluator_.evaluate(ctx, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (step_of(tasks[i]->task)) {
      queue_step(ctx, *tasks[i], rows[i].output, pending);
    }
    pending.write(*tasks[i], std::move(rows[i].output));
  }
}

void TaskRunner::run_segment(ExecContext& ctx,
                             std::span<const BoundTask* const> tasks,
                             Pending& pending) {
  const int segment = tasks.front()->task.segment;
  const bool last = segment + 1 == evaluator_.num_segments();
  std::vector<SegmentRow> rows;
  rows.reserve(tasks.size());
  for (const BoundTask* bound : tasks) {
    const Task& task = bound->task;
    SegmentRow row{.sample_index = bound->sample_index,
                   .timestep = schedule_.timestep(task.timestep_call),
                   .latents = {},
                   .boundary = {},
                   .output = {}};
    if (segment == 0) {
      row.latents = scale_model_input(ctx, schedule_, task.from,
                                      read_latents(ctx, *bound));
    } else {
      row.boundary = read_boundary(ctx, *bound);
    }
    if (last) {
      row.output = output_tensor(ctx, evaluator_);
    }
    rows.push_back(std::move(row));
  }
  evaluator_.run_segment(ctx, segment, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (last) {
      pending.write(*tasks[i], std::move(rows[i].output));
    } else {
      pending.write(*tasks[i], std::move(rows[i].boundary));
    }
  }
}

void TaskRunner::combine(ExecContext& ctx, const BoundTask& bound,
                         Pending& pending) {
  Tensor out = output_tensor(ctx, evaluator_);
  evaluator_.combine(ctx, read_tensor(ctx, bound, 0),
                     read_tensor(ctx, bound, 1), out);
  if (step_of(bound.task)) {
    queue_step(ctx, bound, out, pending);
  }
  pending.write(bound, std::move(out));
}

void TaskRunner::name_block(ExecContext& ctx, const BoundTask& bound, int call,
                            const Tensor& latents, const Error& error) {
  const EvaluateRow row{
      .sample_index = bound.sample_index,
      .branch = Branch::guided,
      .timestep = schedule_.timestep(call),
      .latents = scale_model_input(ctx, schedule_, call, latents),
      .output = {}};
  const std::string where = evaluator_.first_non_finite(ctx, row);
  const std::string cause =
      where.empty() ? "" : "; the first NaN or infinity appears in " + where;
  throw Error(error.code(), error.place(), error.message() + cause,
              error.hint());
}

void TaskRunner::queue_step(ExecContext& ctx, const BoundTask& bound,
                            const Tensor& model_output, Pending& pending) {
  const Task& task = bound.task;
  SolverState state = read_state(ctx, bound, step_of(task)->state);
  SolverState next = step(ctx, schedule_, task.from, task.to, state,
                          model_output, bound.sample_index, noise_);
  const std::size_t finite = pending.readings->all_finite(next.latents);
  pending.steps.push_back(
      {&bound, std::move(state.latents), std::move(next), finite});
}

void TaskRunner::queue_sweep(ExecContext& ctx, const BoundTask& bound,
                             std::size_t result, Pending& pending) {
  const Task& task = bound.task;
  const auto size = static_cast<std::size_t>(task.to - task.from);
  SweepInput input{.schedule = schedule_,
                   .options = options_,
                   .noise = noise_,
                   .sample_index = bound.sample_index,
                   .from = task.from,
                   .states = {},
                   .outputs = {},
                   .num_guesses = task.outputs.size() - size};
  for (std::size_t i = 0; i <= size; ++i) {
    input.states.push_back(read_state(ctx, bound, task.inputs.at(i)));
  }
  for (std::size_t i = 0; i < size; ++i) {
    input.outputs.push_back(read_tensor(ctx, bound, size + 1 + i));
  }
  SweepOutput output = sweep_window(ctx, input, *pending.readings);
  pending.sweeps.push_back(
      {&bound, result, std::move(input), std::move(output)});
}

void TaskRunner::decode(ExecContext& ctx, const BoundTask& bound,
                        Pending& pending) {
  Tensor pixels;
  evaluator_.decode(ctx, read_latents(ctx, bound), pixels);
  pixels.check_on_host("decode");
  pending.write(bound, std::move(pixels));
}

void TaskRunner::judge(ExecContext& ctx, Pending& pending,
                       std::span<TaskResult> results) {
  if (!pending.readings) {
    return;
  }
  const std::span<const double> values = pending.readings->wait();
  for (Pending::Step& done : pending.steps) {
    const BoundTask& bound = *done.bound;
    if (values[done.finite] == 0.0) {
      name_block(
          ctx, bound, bound.task.from, done.latents,
          non_finite_error(bound.sample_index, bound.task.from, schedule_));
    }
    write_state(ctx, bound, step_of(bound.task)->next_state, bound.task.to,
                std::move(done.next), pending);
  }
  for (Pending::Sweep& done : pending.sweeps) {
    try {
      results[done.result].scalars =
          sweep_scalars(done.input, done.output, values);
    } catch (const Error& error) {
      name_output(ctx, *done.bound, done.input, error);
    }
    for (std::size_t i = 0; i < done.output.states.size(); ++i) {
      const Task& task = done.bound->task;
      write_state(ctx, *done.bound, task.outputs.at(i),
                  task.from + 1 + static_cast<int>(i),
                  std::move(done.output.states[i]), pending);
    }
  }
}

void TaskRunner::write_state(ExecContext& ctx, const BoundTask& bound,
                             Slot slot, int point, SolverState state,
                             Pending& pending) {
  if (point == schedule_.num_model_calls()) {
    state.latents = kernels::on_host(ctx, state.latents);
  }
  pending.write(bound, slot, std::move(state));
}

void TaskRunner::name_output(ExecContext& ctx, const BoundTask& bound,
                             const SweepInput& input, const Error& error) {
  kernels::Readings readings(ctx, input.outputs.size());
  for (const Tensor& output : input.outputs) {
    readings.all_finite(output);
  }
  const std::span<const double> finite = readings.wait();
  const auto bad = std::ranges::find(finite, 0.0);
  if (bad == finite.end()) {
    throw error;
  }
  const auto i = static_cast<std::size_t>(bad - finite.begin());
  name_block(ctx, bound, input.from + static_cast<int>(i),
             input.states[i].latents, error);
}

SolverState run_local(Method& method, TaskRunner& runner, ExecContext& ctx,
                      std::uint64_t sample_index, SolverState initial) {
  SlotTable slots;
  slots.put(kInitialSlot, std::move(initial));
  while (!method.done()) {
    std::vector<BoundTask> tasks;
    for (Task& task : method.ready()) {
      tasks.push_back({sample_index, std::move(task), &slots});
    }
    require(!tasks.empty(), Errc::internal, "run_local",
            "a method that is not done has nothing to do");
    const std::vector<TaskResult> results = runner.run(ctx, tasks);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (method.apply(results[i])) {
        slots.erase(tasks[i].task.frees);
      }
    }
  }
  return std::get<SolverState>(slots.get(method.result_slot()));
}

}  // namespace troupe::samplers

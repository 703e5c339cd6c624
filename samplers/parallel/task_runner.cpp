#include "samplers/parallel/task_runner.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/elementwise.h"
#include "samplers/parallel/sweep.h"

namespace troupe::samplers {
namespace {

template <typename T>
T read(const BoundTask& bound, std::size_t input) {
  SlotTable::Value value = bound.slots->get(bound.task.inputs.at(input));
  T* held = std::get_if<T>(&value);
  require(held != nullptr, Errc::internal, "task",
          "a slot holds another kind of value than the task expects");
  return std::move(*held);
}

void write(const BoundTask& bound, std::size_t output, SlotTable::Value value) {
  bound.slots->put(bound.task.outputs.at(output), std::move(value));
}

Tensor output_tensor(const Evaluator& evaluator) {
  const Shape latents = evaluator.latent_shape();
  return Tensor(Shape{evaluator.out_channels(), latents[1], latents[2]},
                DType::f32);
}

// A network works in place on what crosses a cut; the slot must keep its bytes.
Boundary copied(Boundary boundary) {
  for (NamedTensor& named : boundary) {
    named.tensor = named.tensor.clone();
  }
  return boundary;
}

}  // namespace

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
        combine(bound);
        break;
      case Op::step:
        take_step(ctx, bound);
        break;
      case Op::sweep:
        results.back().scalars = sweep(ctx, bound);
        break;
      case Op::decode:
        decode(ctx, bound);
        break;
    }
  }
  if (!rows.empty()) {
    evaluate(ctx, rows);
  }
  for (const auto& [segment, group] : segment_rows) {
    run_segment(ctx, group);
  }
  return results;
}

void TaskRunner::evaluate(ExecContext& ctx,
                          std::span<const BoundTask* const> tasks) {
  std::vector<EvaluateRow> rows;
  rows.reserve(tasks.size());
  for (const BoundTask* bound : tasks) {
    const Task& task = bound->task;
    rows.push_back(
        {.sample_index = bound->sample_index,
         .branch = task.branch,
         .timestep = schedule_.timestep(task.timestep_call),
         .latents = scale_model_input(schedule_, task.from,
                                      read<SolverState>(*bound, 0).latents),
         .output = output_tensor(evaluator_)});
  }
  evaluator_.evaluate(ctx, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    write(*tasks[i], 0, std::move(rows[i].output));
  }
}

void TaskRunner::run_segment(ExecContext& ctx,
                             std::span<const BoundTask* const> tasks) {
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
      row.latents = scale_model_input(schedule_, task.from,
                                      read<SolverState>(*bound, 0).latents);
    } else {
      row.boundary = copied(read<Boundary>(*bound, 0));
    }
    if (last) {
      row.output = output_tensor(evaluator_);
    }
    rows.push_back(std::move(row));
  }
  evaluator_.run_segment(ctx, segment, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (last) {
      write(*tasks[i], 0, std::move(rows[i].output));
    } else {
      write(*tasks[i], 0, std::move(rows[i].boundary));
    }
  }
}

void TaskRunner::combine(const BoundTask& bound) {
  Tensor out = output_tensor(evaluator_);
  evaluator_.combine(read<Tensor>(bound, 0), read<Tensor>(bound, 1), out);
  write(bound, 0, std::move(out));
}

void TaskRunner::name_block(ExecContext& ctx, const BoundTask& bound, int call,
                            const Tensor& latents, const Error& error) {
  const EvaluateRow row{.sample_index = bound.sample_index,
                        .branch = Branch::guided,
                        .timestep = schedule_.timestep(call),
                        .latents = scale_model_input(schedule_, call, latents),
                        .output = {}};
  const std::string where = evaluator_.first_non_finite(ctx, row);
  const std::string cause =
      where.empty() ? "" : "; the first NaN or infinity appears in " + where;
  throw Error(error.code(), error.place(), error.message() + cause,
              error.hint());
}

void TaskRunner::take_step(ExecContext& ctx, const BoundTask& bound) {
  const Task& task = bound.task;
  const auto state = read<SolverState>(bound, 0);
  SolverState next = step(schedule_, task.from, task.to, state,
                          read<Tensor>(bound, 1), bound.sample_index, noise_);
  try {
    check_finite(next, bound.sample_index, task.from, schedule_);
  } catch (const Error& error) {
    name_block(ctx, bound, task.from, state.latents, error);
  }
  write(bound, 0, std::move(next));
}

void TaskRunner::decode(ExecContext& ctx, const BoundTask& bound) {
  Tensor pixels;
  evaluator_.decode(ctx, read<SolverState>(bound, 0).latents, pixels);
  write(bound, 0, std::move(pixels));
}

std::vector<double> TaskRunner::sweep(ExecContext& ctx,
                                      const BoundTask& bound) {
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
    input.states.push_back(read<SolverState>(bound, i));
  }
  for (std::size_t i = 0; i < size; ++i) {
    input.outputs.push_back(read<Tensor>(bound, size + 1 + i));
  }
  SweepOutput out;
  try {
    out = sweep_window(input);
  } catch (const Error& error) {
    const auto bad =
        std::ranges::find_if_not(input.outputs, &kernels::all_finite);
    if (error.code() != Errc::non_finite || bad == input.outputs.end()) {
      throw;
    }
    const auto i = bad - input.outputs.begin();
    name_block(ctx, bound, task.from + static_cast<int>(i),
               input.states[static_cast<std::size_t>(i)].latents, error);
  }
  for (std::size_t i = 0; i < out.states.size(); ++i) {
    write(bound, i, std::move(out.states[i]));
  }
  return std::move(out.scalars);
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

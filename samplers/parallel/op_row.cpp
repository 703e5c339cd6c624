#include "samplers/parallel/op_row.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/core/error.h"
#include "samplers/parallel/method.h"

namespace troupe::samplers {
namespace {

bool is_within(const Limits& limits, std::size_t number) {
  return number >= limits.least && number <= limits.most;
}

/// Whether a task goes on to the solver step that its op may take.
bool takes_step(const Task& task) {
  return task.op->step && task.outputs.size() > task.op->step->next_state;
}

}  // namespace

std::uint32_t Op::number() const {
  const auto found =
      std::ranges::find(kOpTable, row_, [](const OpRow& row) { return &row; });
  require(found != kOpTable.end(), Errc::internal, "op", "is not in the table");
  return static_cast<std::uint32_t>(found - kOpTable.begin());
}

std::optional<StepSlots> step_of(const Task& task) {
  if (!takes_step(task)) {
    return std::nullopt;
  }
  const StepPlaces& at = *task.op->step;
  const Slot state = task.inputs.at(at.state);
  return StepSlots{
      .state = state,
      .model_output = at.model_output ? task.inputs.at(*at.model_output)
                                      : task.outputs.at(0),
      .next_state = task.outputs.at(at.next_state),
      .is_final = !at.old_state || task.inputs.at(*at.old_state) == state};
}

std::optional<Slot> state_of(const Task& task) {
  if (const auto step = step_of(task)) {
    return step->next_state;
  }
  return task.op->outputs.kinds[0] == ValueKind::state
             ? std::optional(task.outputs.at(0))
             : std::nullopt;
}

std::optional<Slot> point_of(const Task& task) {
  return task.is_on_chain ? state_of(task) : std::nullopt;
}

bool is_whole(const Task& task) {
  return is_within(task.op->inputs.number, task.inputs.size()) &&
         is_within(task.op->outputs.number, task.outputs.size()) &&
         is_within(task.op->coefficients, task.coefficients.size()) &&
         std::ranges::all_of(task.coefficients,
                             [](double one) { return std::isfinite(one); }) &&
         (!takes_step(task) || task.inputs.size() > task.op->step->state);
}

ValueKind output_kind(const Task& task, std::size_t place, int num_segments) {
  const auto& kinds = task.op->outputs.kinds;
  const ValueKind kind = kinds[std::min(place, kinds.size() - 1)];
  return kind == ValueKind::boundary && task.segment + 1 >= num_segments
             ? ValueKind::output
             : kind;
}

std::size_t num_scalars(const Task& task) {
  return task.op->has_scalars_of_inputs
             ? task.inputs.size() - task.op->inputs.number.least
             : task.op->scalars;
}

bool has_reused(const Task& task, std::span<const double> scalars) {
  return task.op->may_reuse && !scalars.empty() && scalars.front() != 0;
}

Task task_of(Op op, int from, int to, Slots inputs) {
  return {.op = op,
          .from = from,
          .to = to,
          .timestep_call = from,
          .inputs = std::move(inputs)};
}

Task decode_task(std::uint64_t id, Slot result, Slot pixels) {
  return {.id = id, .op = Op::decode, .inputs = {result}, .outputs = {pixels}};
}

}  // namespace troupe::samplers

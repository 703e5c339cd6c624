#include "samplers/parallel/task_book.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::samplers {
namespace {

/// Writes or reads a task.
template <typename Bytes, typename TaskType>
void transfer_task(Bytes& bytes, TaskType& task) {
  bytes.number(task.id);
  bytes.number(task.version, std::numeric_limits<std::uint32_t>::max() - 1);
  bytes.number(task.op, Op::decode);
  bytes.number(task.branch, Branch::uncond);
  bytes.number(task.segment);
  bytes.number(task.part);
  bytes.number(task.from);
  bytes.number(task.to);
  bytes.number(task.timestep_call);
  bytes.numbers(task.inputs);
  bytes.numbers(task.outputs);
  bytes.numbers(task.frees);
}

void check_slots(const Task& task) {
  const std::size_t least_inputs =
      task.op == Op::combine && task.outputs.size() == 2 ? 3
      : task.op == Op::step || task.op == Op::combine    ? 2
                                                         : 1;
  require(task.id != 0 && task.inputs.size() >= least_inputs &&
              !task.outputs.empty(),
          Errc::corrupt_file, "snapshot", "has a task with too few slots");
}

}  // namespace

std::optional<StepSlots> step_of(const Task& task) {
  const bool goes_on = task.outputs.size() == 2;
  if (task.op == Op::step) {
    return StepSlots{task.inputs.at(0), task.inputs.at(1), task.outputs.at(0)};
  }
  if (task.op == Op::evaluate && goes_on) {
    return StepSlots{task.inputs.at(0), task.outputs.at(0), task.outputs.at(1)};
  }
  if (task.op == Op::combine && goes_on) {
    return StepSlots{task.inputs.at(2), task.outputs.at(0), task.outputs.at(1)};
  }
  return std::nullopt;
}

void TaskBook::add(Task task) {
  if (task.id == 0) {
    task.id = next_id_++;
  }
  task.frees.insert(task.frees.end(), garbage_.begin(), garbage_.end());
  garbage_.clear();
  ready_.push_back(task.id);
  open_.emplace(task.id, std::move(task));
}

std::vector<Task> TaskBook::take() {
  std::vector<Task> tasks;
  tasks.reserve(ready_.size());
  for (const std::uint64_t id : ready_) {
    tasks.push_back(open_.at(id));
  }
  ready_.clear();
  return tasks;
}

std::optional<Task> TaskBook::finish(const TaskResult& result) {
  const auto found = open_.find(result.id);
  if (found == open_.end() || found->second.version != result.version ||
      std::find(ready_.begin(), ready_.end(), result.id) != ready_.end()) {
    return std::nullopt;
  }
  Task task = std::move(found->second);
  open_.erase(found);
  return task;
}

void TaskBook::save(ByteWriter& out) const {
  out.number(next_id_);
  out.number(next_slot_);
  out.numbers(garbage_);
  out.number(open_.size());
  for (const auto& [id, task] : open_) {
    transfer_task(out, task);
  }
}

void TaskBook::load(ByteReader& in) {
  in.number(next_id_);
  in.number(next_slot_);
  in.numbers(garbage_);
  open_.clear();
  ready_.clear();
  for (std::size_t left = in.count(); left > 0; --left) {
    Task task;
    transfer_task(in, task);
    check_slots(task);
    ++task.version;
    ready_.push_back(task.id);
    open_.emplace(task.id, std::move(task));
  }
}

}  // namespace troupe::samplers

#include "samplers/parallel/task_book.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::samplers {
namespace {

constexpr std::uint64_t kLargestInt = std::numeric_limits<int>::max();
constexpr std::uint64_t kLargestSlot = std::numeric_limits<Slot>::max();

void save_slots(const std::vector<Slot>& slots, ByteWriter& out) {
  out.number(slots.size());
  for (const Slot slot : slots) {
    out.number(slot);
  }
}

std::vector<Slot> load_slots(ByteReader& in) {
  std::vector<Slot> slots(in.count());
  for (Slot& slot : slots) {
    slot = in.small<Slot>(kLargestSlot);
  }
  return slots;
}

void save_task(const Task& task, ByteWriter& out) {
  out.number(task.id);
  out.number(task.version);
  out.number(static_cast<std::uint64_t>(task.op));
  out.number(static_cast<std::uint64_t>(task.branch));
  for (const int value :
       {task.segment, task.part, task.from, task.to, task.timestep_call}) {
    out.number(static_cast<std::uint64_t>(value));
  }
  save_slots(task.inputs, out);
  save_slots(task.outputs, out);
  save_slots(task.frees, out);
}

Task load_task(ByteReader& in) {
  Task task;
  task.id = in.number();
  task.version = in.small<std::uint32_t>(
      std::numeric_limits<std::uint32_t>::max() - std::uint64_t{1});
  task.op = in.small<Op>(static_cast<std::uint64_t>(Op::decode));
  task.branch = in.small<Branch>(static_cast<std::uint64_t>(Branch::uncond));
  for (int* value :
       {&task.segment, &task.part, &task.from, &task.to, &task.timestep_call}) {
    *value = in.small<int>(kLargestInt);
  }
  task.inputs = load_slots(in);
  task.outputs = load_slots(in);
  task.frees = load_slots(in);
  const std::size_t least_inputs =
      task.op == Op::combine && task.outputs.size() == 2 ? 3
      : task.op == Op::step || task.op == Op::combine    ? 2
                                                         : 1;
  require(task.id != 0 && task.inputs.size() >= least_inputs &&
              !task.outputs.empty(),
          Errc::corrupt_file, "snapshot", "has a task with too few slots");
  return task;
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
  save_slots(garbage_, out);
  out.number(open_.size());
  for (const auto& [id, task] : open_) {
    save_task(task, out);
  }
}

void TaskBook::load(ByteReader& in) {
  next_id_ = in.number();
  next_slot_ = in.small<Slot>(kLargestSlot);
  garbage_ = load_slots(in);
  open_.clear();
  ready_.clear();
  for (std::size_t left = in.count(); left > 0; --left) {
    Task task = load_task(in);
    ++task.version;
    ready_.push_back(task.id);
    open_.emplace(task.id, std::move(task));
  }
}

}  // namespace troupe::samplers

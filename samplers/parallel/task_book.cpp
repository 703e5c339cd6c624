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
  bytes.number(task.op);
  bytes.number(task.branch, Branch::uncond);
  transfer_all(bytes, task.segment, task.part, task.from, task.to,
               task.timestep_call, task.inputs, task.outputs, task.coefficients,
               task.is_on_chain);
}

}  // namespace

std::uint64_t TaskBook::add(Task task) {
  const std::uint64_t id = next_id_++;
  task.id = id;
  for (const Slot slot : task.outputs) {
    (void)slots_[slot];
  }
  open(std::move(task));
  return id;
}

/// The slots that the task names are in the book.
void TaskBook::open(Task task) {
  for (const Slot slot : task.inputs) {
    ++slots_.at(slot).readers;
  }
  const std::uint64_t id = task.id;
  waiting_.push_back(id);
  open_[id].task = std::move(task);
}

std::vector<Task> TaskBook::take(int max_open) {
  std::vector<Task> tasks;
  const auto take_if = [&](const auto& is_wanted) {
    std::erase_if(waiting_, [&](std::uint64_t id) {
      OpenTask& waiting = open_.at(id);
      if (!is_wanted(waiting)) {
        return false;
      }
      waiting.is_out = true;
      ++num_out_;
      tasks.push_back(waiting.task);
      return true;
    });
  };
  take_if([this](const OpenTask& waiting) {
    return std::ranges::all_of(waiting.task.inputs, [this](Slot slot) {
      return slots_.at(slot).is_made;
    });
  });
  take_if([&](const OpenTask&) { return num_out_ < max_open; });
  return tasks;
}

std::optional<Task> TaskBook::finish(const TaskResult& result) {
  const OpenTask* const found = open_.find(result.id);
  if (found == nullptr || !found->is_out ||
      found->task.version != result.version) {
    return std::nullopt;
  }
  Task task = open_.take(result.id)->task;
  --num_out_;
  for (const Slot slot : task.outputs) {
    slots_.at(slot).is_made = true;
  }
  for (const Slot slot : task.inputs) {
    --slots_.at(slot).readers;
  }
  return task;
}

Slots TaskBook::bury(std::vector<Slot> kept) {
  std::ranges::sort(kept);
  Slots dead;
  slots_.erase_if([&](Slot slot, const SlotUse& use) {
    const bool is_dead = use.is_made && use.readers == 0 &&
                         !std::ranges::binary_search(kept, slot);
    if (is_dead) {
      dead.push_back(slot);
    }
    return is_dead;
  });
  return dead;
}

std::vector<Slot> TaskBook::live_slots() const {
  std::vector<Slot> live;
  for (const auto& [slot, use] : slots_) {
    if (use.is_made) {
      live.push_back(slot);
    }
  }
  return live;
}

// Neither a slot's readers nor whether the slot is made are saved: the open
// tasks, which read and write slots, give both.
void TaskBook::transfer(ByteWriter& out) const {
  transfer_all(out, next_id_, next_slot_);
  out.length(slots_);
  for (const auto& [slot, use] : slots_) {
    out.number(slot);
  }
  out.length(open_);
  for (const auto& [id, open] : open_) {
    transfer_task(out, open.task);
  }
}

void TaskBook::transfer(ByteReader& in) {
  *this = {};
  transfer_all(in, next_id_, next_slot_);
  slots_.clear();
  for (std::size_t left = in.count(); left > 0; --left) {
    Slot slot = 0;
    in.number(slot);
    slots_[slot].is_made = true;
  }
  const auto use_of = [this](Slot slot) -> SlotUse& {
    SlotUse* const found = slots_.find(slot);
    require(found != nullptr, Errc::corrupt_file, "snapshot",
            "has a task whose slot it lacks");
    return *found;
  };
  std::vector<Task> tasks;
  for (std::size_t left = in.count(); left > 0; --left) {
    Task& task = tasks.emplace_back();
    transfer_task(in, task);
    require(task.id != 0 && is_whole(task), Errc::corrupt_file, "snapshot",
            "has a task that is not whole");
    ++task.version;
    for (const Slot slot : task.outputs) {
      use_of(slot).is_made = false;
    }
  }
  for (Task& task : tasks) {
    std::ranges::for_each(task.inputs, use_of);
    require(!open_.contains(task.id), Errc::corrupt_file, "snapshot",
            "has a task twice");
    open(std::move(task));
  }
}

std::optional<Slots> BookedMethod::apply(const TaskResult& result) {
  const std::optional<Task> done = book_.finish(result);
  if (!done) {
    return std::nullopt;
  }
  reused_ += has_reused(*done, result.scalars) ? 1 : 0;
  advance(*done, result.scalars);
  return book_.bury(kept_slots());
}

Progress BookedMethod::progress() const {
  return {.accepted = accepted(),
          .total = num_calls_,
          .nfe = evaluations_ - num_missing(),
          .rounds = num_rounds_,
          .reused = reused_};
}

}  // namespace troupe::samplers

#include "tests/parallel/simulator.h"

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <utility>

#include "kernels/core/error.h"
#include "tests/parallel/run_local.h"

namespace troupe::samplers::testing {
namespace {

/// The first task, and others that can stand in its forward pass.
std::vector<BoundTask> take_group(std::vector<BoundTask>& tasks,
                                  std::size_t most) {
  std::vector<BoundTask> group;
  std::erase_if(tasks, [&](BoundTask& bound) {
    const bool joins =
        group.empty() ||
        (group.size() < most && group.front().task.op == bound.task.op &&
         group.front().task.segment == bound.task.segment &&
         bound.task.op->joins());
    if (joins) {
      group.push_back(std::move(bound));
    }
    return joins;
  });
  return group;
}

}  // namespace

Simulator::Simulator(TaskRunner& runner, ExecContext& ctx, int num_workers,
                     std::uint64_t seed)
    : runner_(runner),
      ctx_(ctx),
      random_(seed),
      workers_(static_cast<std::size_t>(num_workers)) {}

void Simulator::add(std::uint64_t sample_index, std::unique_ptr<Method> method,
                    SolverState start) {
  samples_.push_back(
      {sample_index, std::move(method), std::make_unique<SlotTable>()});
  samples_.back().slots->put(kInitialSlot, std::move(start));
}

std::size_t Simulator::below(std::size_t bound) { return random_() % bound; }

bool Simulator::is_done() const {
  return std::all_of(samples_.begin(), samples_.end(),
                     [](const Sample& s) { return s.method->done(); });
}

Tensor Simulator::latents(std::size_t i) const {
  const Sample& sample = samples_[i];
  return std::get<SolverState>(sample.slots->get(sample.method->result_slot()))
      .latents;
}

void Simulator::place(std::size_t sample, const Task& task) {
  const std::size_t worker =
      task.op->spreads && task.part == 0
          ? below(workers_.size())
          : static_cast<std::size_t>(task.part) % workers_.size();
  workers_[worker].push_back(
      {samples_[sample].index, task, samples_[sample].slots.get()});
}

void Simulator::hand_out(std::size_t sample) {
  for (const Task& task : samples_[sample].method->ready(kNothingAhead)) {
    place(sample, task);
    if (below(4) == 0) {
      place(sample, task);
    }
  }
}

bool Simulator::work(std::size_t worker) {
  std::vector<BoundTask> group = take_group(workers_[worker], 1 + below(4));
  // A second run of a task whose slots are gone has nothing to do.
  std::erase_if(group, [](const BoundTask& bound) {
    return std::any_of(
        bound.task.inputs.begin(), bound.task.inputs.end(),
        [&](Slot slot) { return !bound.slots->find(slot).has_value(); });
  });
  if (group.empty()) {
    return false;
  }
  const std::vector<TaskResult> results = run_tasks(runner_, ctx_, group);
  for (std::size_t i = 0; i < group.size(); ++i) {
    const auto sample = std::find_if(
        samples_.begin(), samples_.end(),
        [&](const Sample& s) { return s.slots.get() == group[i].slots; });
    most_slots_ = std::max(most_slots_, sample->slots->size());
    for (std::size_t copies = 1 + below(4) / 3; copies > 0; --copies) {
      in_flight_.push_back(
          {static_cast<std::size_t>(sample - samples_.begin()), results[i]});
    }
  }
  return true;
}

void Simulator::deliver() {
  std::swap(in_flight_[below(in_flight_.size())], in_flight_.back());
  const Message message = std::move(in_flight_.back());
  in_flight_.pop_back();
  Sample& sample = samples_[message.sample];
  if (const auto dead = sample.method->apply(message.result)) {
    sample.slots->erase(*dead);
  } else {
    ++dropped_;
  }
}

void Simulator::run() {
  while (!is_done()) {
    for (std::size_t sample = 0; sample < samples_.size(); ++sample) {
      if (below(2) == 0 || in_flight_.empty()) {
        hand_out(sample);
      }
    }
    std::vector<std::size_t> busy;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (!workers_[i].empty()) {
        busy.push_back(i);
      }
    }
    if (busy.size() > 1 || !in_flight_.empty()) {
      std::erase(busy, static_cast<std::size_t>(frozen_));
    }
    if (!busy.empty() && (in_flight_.empty() || below(2) == 0)) {
      work(busy[below(busy.size())]);
    } else if (!in_flight_.empty()) {
      deliver();
    } else if (busy.empty()) {
      throw Error(Errc::internal, "simulator", "nothing can go on");
    }
  }
}

std::int64_t makespan(const std::vector<Method*>& methods,
                      const std::function<std::int64_t(const Task&)>& cost) {
  struct End {
    std::int64_t time;
    std::uint64_t order;
    std::size_t method;
    Task task;
    bool operator<(const End& other) const {
      return std::pair(time, order) > std::pair(other.time, other.order);
    }
  };
  std::priority_queue<End> ends;
  std::map<int, std::int64_t> free_at;
  std::uint64_t order = 0;
  std::int64_t now = 0;
  const auto start_ready = [&](std::size_t i) {
    for (Task& task : methods[i]->ready(kNothingAhead)) {
      std::int64_t& free = free_at[task.part];
      const std::int64_t length = cost(task);
      // What costs nothing does not wait for the worker either.
      const std::int64_t end =
          (length == 0 ? now : std::max(now, free)) + length;
      if (length > 0) {
        free = end;
      }
      ends.push({end, order++, i, std::move(task)});
    }
  };
  for (std::size_t i = 0; i < methods.size(); ++i) {
    start_ready(i);
  }
  while (!ends.empty()) {
    const End end = ends.top();
    ends.pop();
    now = end.time;
    methods[end.method]->apply({end.task.id, end.task.version, {}});
    start_ready(end.method);
  }
  return now;
}

}  // namespace troupe::samplers::testing

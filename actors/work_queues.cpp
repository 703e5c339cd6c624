#include "actors/work_queues.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe::actors {
namespace {

// The policy never touches slots: the worker finds them by sample index.
samplers::BoundTask unbound(SampleTask task) {
  return {task.sample_index, std::move(task.task), nullptr};
}

std::vector<Pending> to_pending(std::vector<samplers::BoundTask> group) {
  std::vector<Pending> tasks;
  tasks.reserve(group.size());
  for (samplers::BoundTask& bound : group) {
    tasks.push_back({.work = {bound.sample_index, std::move(bound.task)}});
  }
  return tasks;
}

}  // namespace

WorkQueues::WorkQueues(int num_workers, int num_classes)
    : queues_(static_cast<std::size_t>(num_workers)),
      anywhere_(static_cast<std::size_t>(num_classes)) {}

void WorkQueues::push(int worker, SampleTask task) {
  queues_[static_cast<std::size_t>(worker)].packer.push(
      unbound(std::move(task)));
}

void WorkQueues::push_alone(int worker, Pending task) {
  queues_[static_cast<std::size_t>(worker)].alone.push_back(std::move(task));
}

void WorkQueues::push_anywhere(int execution_class, SampleTask task) {
  anywhere_[static_cast<std::size_t>(execution_class)].push(
      unbound(std::move(task)));
}

std::vector<Pending> WorkQueues::take(int worker, int execution_class,
                                      int max_rows, int share) {
  Queue& own = queues_[static_cast<std::size_t>(worker)];
  samplers::Packer& anyone =
      anywhere_[static_cast<std::size_t>(execution_class)];
  if (!own.alone.empty()) {
    std::vector<Pending> one;
    one.push_back(std::move(own.alone.front()));
    own.alone.pop_front();
    return one;
  }
  return to_pending(own.packer.empty() ? anyone.next(std::min(share, max_rows))
                                       : own.packer.next(max_rows));
}

std::vector<Pending> WorkQueues::take_all(int worker) {
  Queue& own = queues_[static_cast<std::size_t>(worker)];
  std::vector<Pending> all(std::make_move_iterator(own.alone.begin()),
                           std::make_move_iterator(own.alone.end()));
  own.alone.clear();
  while (!own.packer.empty()) {
    auto group = to_pending(own.packer.next(1));
    std::move(group.begin(), group.end(), std::back_inserter(all));
  }
  return all;
}

void WorkQueues::erase_sample(std::uint64_t sample_index) {
  for (Queue& queue : queues_) {
    queue.packer.remove(sample_index);
    std::erase_if(queue.alone, [sample_index](const Pending& pending) {
      return pending.work.sample_index == sample_index;
    });
  }
  for (samplers::Packer& packer : anywhere_) {
    packer.remove(sample_index);
  }
}

}  // namespace troupe::actors

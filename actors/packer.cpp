#include "actors/packer.h"

#include <algorithm>
#include <iterator>

namespace troupe::actors {
namespace {

/// Whether both may stand in one forward pass.
bool joins(const SampleTask& a, const SampleTask& b) {
  return !a.alone && !b.alone && a.task.op == b.task.op && a.task.op->joins() &&
         a.task.segment == b.task.segment;
}

}  // namespace

void Packer::push(SampleTask task) {
  if (task.task.op->is_heavy()) {
    heavy_.emplace_hint(heavy_.end(), arrivals_++, std::move(task));
  } else {
    cheap_.push_back(std::move(task));
  }
}

std::vector<SampleTask> Packer::next(int max_rows) {
  std::vector<SampleTask> group;
  if (!cheap_.empty()) {
    // The cheap tasks in front of the first task that runs alone; if that task
    // is in front, the task itself.
    const auto alone = std::ranges::find(cheap_, true, &SampleTask::alone);
    const auto end = alone == cheap_.begin() ? std::next(alone) : alone;
    std::move(cheap_.begin(), end, std::back_inserter(group));
    cheap_.erase(cheap_.begin(), end);
    return group;
  }
  const auto limit = static_cast<std::size_t>(std::max(1, max_rows));
  for (auto it = heavy_.begin(); it != heavy_.end() && group.size() < limit;) {
    if (group.empty() || joins(group.front(), it->second)) {
      group.push_back(std::move(it->second));
      it = heavy_.erase(it);
    } else {
      ++it;
    }
  }
  return group;
}

template <typename Picks>
std::vector<SampleTask> Packer::take_if(const Picks& picks) {
  std::vector<SampleTask> taken;
  const auto takes = [&](SampleTask& task) {
    const bool is_taken = picks(task);
    if (is_taken) {
      taken.push_back(std::move(task));
    }
    return is_taken;
  };
  std::erase_if(cheap_, takes);
  for (auto it = heavy_.begin(); it != heavy_.end();) {
    it = takes(it->second) ? heavy_.erase(it) : std::next(it);
  }
  return taken;
}

std::vector<SampleTask> Packer::drop(std::uint64_t sample_index,
                                     std::uint32_t last_run) {
  return take_if([&](const SampleTask& task) {
    return task.sample_index == sample_index && task.run <= last_run;
  });
}

std::vector<SampleTask> Packer::take(const std::set<std::uint64_t>& grants) {
  return take_if(
      [&](const SampleTask& task) { return grants.contains(task.grant); });
}

}  // namespace troupe::actors

// The part of CoordinatorPolicy that keeps room for values: a sample begins
// where all that it may hold fits.

#include <algorithm>
#include <string>
#include <utility>

#include "actors/coordinator_policy.h"
#include "kernels/core/system.h"

namespace troupe::actors {

/// Work ahead takes room: there is as much of it as leaves room, in each
/// process, for the samples that its groups want to have in flight. But two
/// calls, which hide the way of a result, are always ahead.
void CoordinatorPolicy::plan_room() {
  most_ahead_ = std::max(kMostAhead, tasks_per_call_);
  const int least = least_ahead(options_.method);
  std::map<int, std::uint64_t> wanted;  // samples, by process
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    std::set<int> processes{kHomeProcess};
    for (const int w : groups_.group(g).workers) {
      processes.insert(at(w).traits.process);
    }
    for (const int process : processes) {
      wanted[process] += groups_.most(g);
    }
  }
  const auto has_all = [&](const auto& entry) {
    const auto budget = options_.value_budgets.find(entry.first);
    return budget == options_.value_budgets.end() || budget->second == 0 ||
           budget->second /
                   std::max<std::uint64_t>(
                       sample_bytes(entry.first, can_lose_values_), 1) >=
               entry.second;
  };
  while (most_ahead_ > least && !std::ranges::all_of(wanted, has_all)) {
    most_ahead_ = std::max(most_ahead_ / 2, least);
  }
  set_room();
}

void CoordinatorPolicy::set_room() {
  for (const auto& [process, budget] : options_.value_budgets) {
    room_.set(process, budget, sample_bytes(process, can_lose_values_));
  }
}

/// At most, of one sample in the process. What is being cut is not freed until
/// the cut is over; the coordinator's process keeps the values of the last cut
/// beside that.
std::uint64_t CoordinatorPolicy::sample_bytes(int process, bool is_cut) const {
  const std::uint64_t bytes =
      bytes_of(options_.method.kind->most_live(options_.method,
                                               calls_per_sample_, most_ahead_),
               options_.value_sizes);
  const std::uint64_t for_cuts = process == kHomeProcess ? 2 : 1;
  return bytes * (is_cut ? 1 + for_cuts : 1);
}

/// Whether a sample that has room in the processes `kept` can come to the
/// group.
bool CoordinatorPolicy::fits(std::size_t group, const RoomKept& kept) const {
  return !full_process_of(group, kept);
}

std::optional<int> CoordinatorPolicy::full_process_of(
    std::size_t group, const RoomKept& kept) const {
  for (const int w : groups_.group(group).workers) {
    const int process = workers_[static_cast<std::size_t>(w)].traits.process;
    if (!kept.contains(process) && !room_.fits(process)) {
      return process;
    }
  }
  return std::nullopt;
}

/// In the group's processes, and in the coordinator's: the result comes there,
/// and cuts.
void CoordinatorPolicy::keep_room(Sample& sample) {
  keep_room(sample, kHomeProcess);
  for (const int w : groups_.group(sample.group).workers) {
    keep_room(sample, at(w).traits.process);
  }
}

/// Even if there is none (see Sample::room).
void CoordinatorPolicy::keep_room(Sample& sample, int process) {
  if (!sample.room.contains(process)) {
    (void)sample.room[process];
    room_.take(process);
  }
}

/// The groups that waited for it are looked at again.
void CoordinatorPolicy::give_room_back(Sample& sample) {
  for (const auto& [process, is_kept] : std::exchange(sample.room, {})) {
    room_.give_back(process);
    if (room_.fits(process)) {
      for (const std::size_t group :
           full_groups_.take(process).value_or(std::vector<std::size_t>{})) {
        groups_.set_full(group, false);
      }
    }
  }
}

/// The group is passed over until the process has room.
void CoordinatorPolicy::note_full(std::size_t group, int process) {
  groups_.set_full(group, true);
  full_groups_[process].push_back(group);
}

/// Nothing is in flight, so all room is free. If nobody can ever take a sample,
/// nothing more comes of the job.
void CoordinatorPolicy::end_if_no_room() {
  std::optional<int> lacking;
  if (!room_.could_fit(kHomeProcess)) {
    lacking = kHomeProcess;
  }
  for (std::size_t g = 0; g < groups_.size() && lacking != kHomeProcess; ++g) {
    if (!groups_.is_staffed(g)) {
      continue;
    }
    const auto& workers = groups_.group(g).workers;
    const auto full = std::ranges::find_if(workers, [this](int w) {
      return !room_.could_fit(at(w).traits.process);
    });
    if (full == workers.end()) {
      return;
    }
    lacking = lacking.value_or(at(*full).traits.process);
  }
  if (lacking) {
    end_job(false, no_room(*lacking, options_.value_budgets.at(*lacking)));
  }
}

Failure CoordinatorPolicy::no_room(int process, std::uint64_t budget) const {
  return {Errc::out_of_memory, "coordinator",
          "the values of one sample do not fit in process " +
              std::to_string(process) + ": got " + human_bytes(budget) +
              " for values, expected " +
              human_bytes(sample_bytes(process, can_lose_values_)),
          "use a smaller --size or --window, fewer --segments, or a host with "
          "more memory"};
}

}  // namespace troupe::actors

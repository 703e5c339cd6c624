// The part of CoordinatorPolicy that keeps room for values: a sample begins
// where all that it may hold fits.

#include <algorithm>
#include <string>
#include <utility>

#include "actors/coordinator_policy.h"
#include "kernels/core/system/machine.h"

namespace troupe::actors {
namespace {

/// The first of the worker's memories of which `holds` is true: the host's,
/// because what a GPU reads from elsewhere passes through it, then the GPU's.
template <typename Predicate>
std::optional<ValueMemory> first_memory(const WorkerTraits& worker,
                                        const Predicate& holds) {
  const ValueMemory own = memory_of(worker);
  const ValueMemory host{own.process};
  if (holds(host)) {
    return host;
  }
  return own != host && holds(own) ? std::optional(own) : std::nullopt;
}

}  // namespace

/// Work ahead takes room. It is limited until each memory has room for the
/// wanted samples of its groups, and for one sample with cuts, since cuts are
/// taken when another process joins. Two calls, which hide the way of a result,
/// are always ahead.
void CoordinatorPolicy::plan_room() {
  const auto set_ahead = [this](int tasks) {
    most_ahead_ = tasks;
    most_live_ =
        samplers::most_live(options_.method, calls_per_sample_, most_ahead_);
  };
  set_ahead(std::max(kMostAhead, tasks_per_call_));
  const int least = least_ahead(options_.method);
  std::map<ValueMemory, std::uint64_t> wanted;  // samples
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    std::set<ValueMemory> memories{kHomeMemory};
    for (const int w : groups_.group(g).workers) {
      memories.insert({at(w).traits.process});
      memories.insert(memory_of(at(w).traits));
    }
    for (const ValueMemory& memory : memories) {
      wanted[memory] += groups_.most(g);
    }
  }
  const auto has_all = [&](const auto& entry) {
    const std::uint64_t budget = budget_of(entry.first);
    const std::uint64_t each = sample_bytes(entry.first, can_lose_values_);
    return budget == 0 ||
           (budget / std::max<std::uint64_t>(each, 1) >= entry.second &&
            budget >= sample_bytes(entry.first, true));
  };
  while (most_ahead_ > least && !std::ranges::all_of(wanted, has_all)) {
    set_ahead(std::max(most_ahead_ / 2, least));
  }
  set_room();
}

void CoordinatorPolicy::set_room() {
  const auto set = [this](ValueMemory memory, std::uint64_t budget) {
    room_.set(memory, budget, sample_bytes(memory, can_lose_values_));
  };
  for (const auto& [process, budget] : options_.value_budgets) {
    set({process}, budget);
  }
  for (const Worker& worker : workers_) {
    if (worker.traits.value_budget > 0) {
      set(memory_of(worker.traits), worker.traits.value_budget);
    }
  }
}

/// Bytes that the memory keeps for values; 0: no limit.
std::uint64_t CoordinatorPolicy::budget_of(ValueMemory memory) const {
  if (memory.gpu < 0) {
    const auto budget = options_.value_budgets.find(memory.process);
    return budget == options_.value_budgets.end() ? 0 : budget->second;
  }
  const auto worker = std::ranges::find_if(
      workers_,
      [&memory](const Worker& one) { return memory_of(one.traits) == memory; });
  return worker == workers_.end() ? 0 : worker->traits.value_budget;
}

/// At most, of one sample in the memory.
std::uint64_t CoordinatorPolicy::sample_bytes(ValueMemory memory,
                                              bool is_cut) const {
  const ValueSizes& sizes = options_.value_sizes;
  std::uint64_t bytes = bytes_of(most_live_, sizes);
  if (is_cut) {
    bytes *= memory == kHomeMemory ? kCopiesWithCutsAtHome : kCopiesWithCuts;
  }
  // What waits for its way to observers.
  if (options_.trajectory) {
    bytes += static_cast<std::uint64_t>(calls_per_sample_) * sizes.state;
  }
  if (options_.preview_every > 0) {
    bytes += static_cast<std::uint64_t>(
                 calls_per_sample_ / options_.preview_every + 1) *
             (sizes.state + sizes.output);
  }
  return bytes;
}

/// Whether a sample that has room in the memories `kept` can come to the
/// group.
bool CoordinatorPolicy::fits(std::size_t group, const RoomKept& kept) const {
  return !full_memory_of(group, kept);
}

std::optional<ValueMemory> CoordinatorPolicy::full_memory_of(
    std::size_t group, const RoomKept& kept) const {
  for (const int w : groups_.group(group).workers) {
    const auto full =
        full_memory_of(workers_[static_cast<std::size_t>(w)].traits, kept);
    if (full) {
      return full;
    }
  }
  return std::nullopt;
}

std::optional<ValueMemory> CoordinatorPolicy::full_memory_of(
    const WorkerTraits& worker, const RoomKept& kept) const {
  return first_memory(worker, [&](ValueMemory memory) {
    return !kept.contains(memory) && !room_.fits(memory);
  });
}

/// Keeps room in the memories of the group, and in the home memory.
void CoordinatorPolicy::keep_room(Sample& sample) {
  keep_room(sample, kHomeMemory);
  for (const int w : groups_.group(sample.group).workers) {
    keep_room(sample, at(w).traits);
  }
}

void CoordinatorPolicy::keep_room(Sample& sample, const WorkerTraits& worker) {
  const ValueMemory own = memory_of(worker);
  keep_room(sample, ValueMemory{own.process});
  if (own.gpu >= 0) {
    keep_room(sample, own);
  }
}

/// Takes room even if there is none (see Sample::room).
void CoordinatorPolicy::keep_room(Sample& sample, ValueMemory memory) {
  if (!sample.room.contains(memory)) {
    (void)sample.room[memory];
    room_.take(memory);
  }
}

/// Groups that waited for this room may take samples again.
void CoordinatorPolicy::give_room_back(Sample& sample) {
  for (const auto& [memory, is_kept] : std::exchange(sample.room, {})) {
    room_.give_back(memory);
    if (room_.fits(memory)) {
      for (const std::size_t group :
           full_groups_.take(memory).value_or(std::vector<std::size_t>{})) {
        groups_.set_full(group, false);
      }
    }
  }
}

/// The group is passed over until the memory has room.
void CoordinatorPolicy::note_full(std::size_t group, ValueMemory memory) {
  groups_.set_full(group, true);
  full_groups_[memory].push_back(group);
}

/// Nothing is in flight, so all room is free. If nobody can ever take a sample,
/// nothing more comes of the job.
void CoordinatorPolicy::end_if_no_room() {
  const auto lacks = [this](ValueMemory memory) {
    return !room_.could_fit(memory);
  };
  std::optional<ValueMemory> lacking;
  if (lacks(kHomeMemory)) {
    lacking = kHomeMemory;
  }
  for (std::size_t g = 0; g < groups_.size() && lacking != kHomeMemory; ++g) {
    if (!groups_.is_staffed(g)) {
      continue;
    }
    std::optional<ValueMemory> of_group;
    for (const int w : groups_.group(g).workers) {
      of_group = of_group ? of_group : first_memory(at(w).traits, lacks);
    }
    if (!of_group) {
      return;
    }
    lacking = lacking.value_or(*of_group);
  }
  if (lacking) {
    end_job(false, no_room(*lacking, budget_of(*lacking),
                           sample_bytes(*lacking, can_lose_values_)));
  }
}

/// The memory keeps `budget` bytes for values, and one sample has `needed`.
Failure CoordinatorPolicy::no_room(ValueMemory memory, std::uint64_t budget,
                                   std::uint64_t needed) {
  return {
      Errc::out_of_memory, "coordinator",
      "the values of one sample do not fit in " + to_string(memory) + ": got " +
          human_bytes(budget) + " for values, expected " + human_bytes(needed),
      "use a smaller --size or --window, fewer --segments, or a " +
          std::string(memory.gpu < 0 ? "host" : "GPU") + " with more memory"};
}

}  // namespace troupe::actors

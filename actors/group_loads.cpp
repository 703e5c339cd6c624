#include "actors/group_loads.h"

#include <algorithm>
#include <utility>

namespace troupe::actors {

GroupLoads::GroupLoads(std::vector<WorkerGroup> groups,
                       std::vector<samplers::InFlight> capacities,
                       int num_classes)
    : classes_(static_cast<std::size_t>(num_classes)) {
  std::vector<std::size_t> sizes(classes_.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Group& group = groups_.emplace_back();
    group.workers = std::move(groups[g]);
    group.staff = group.workers.workers.size();
    const auto at_least_one = [](int most) {
      return static_cast<std::size_t>(std::max(most, 1));
    };
    group.most = {at_least_one(capacities[g].most),
                  at_least_one(capacities[g].most_of_long_grants)};
    const auto c = static_cast<std::size_t>(class_of(g));
    if (sizes[c]++ == 0) {
      classes_[c].first = g;
    }
    for (const int worker : group.workers.workers) {
      const auto w = static_cast<std::size_t>(worker);
      group_of_.resize(std::max(group_of_.size(), w + 1));
      group_of_[w] = g;
    }
  }
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    classes_[c].shares.fill(FirstLeast<Share>(sizes[c]));
    classes_[c].loads = FirstLeast<std::size_t>(sizes[c]);
    classes_[c].negative_loads = FirstLeast<std::int64_t>(sizes[c]);
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    note(g);
  }
}

/// The group's load or staff has changed.
void GroupLoads::note(std::size_t g) {
  const Group& group = groups_[g];
  Class& of = classes_[static_cast<std::size_t>(class_of(g))];
  const std::size_t place = g - of.first;
  const std::size_t load = group.samples.size();
  if (group.staff == 0) {
    of.shares[0].set(place, {});
    of.shares[1].set(place, {});
    of.loads.set(place, {});
    of.negative_loads.set(place, {});
    return;
  }
  of.shares[0].set(place, Share{load, group.most[0]});
  of.shares[1].set(place, Share{load, group.most[1]});
  of.loads.set(place, load);
  of.negative_loads.set(place, -static_cast<std::int64_t>(load));
}

void GroupLoads::add(std::size_t g, std::uint64_t sample_index) {
  groups_[g].samples.insert(sample_index);
  note(g);
}

void GroupLoads::remove(std::size_t g, std::uint64_t sample_index) {
  groups_[g].samples.erase(sample_index);
  note(g);
}

void GroupLoads::leave(int worker) {
  const std::size_t g = group_of_[static_cast<std::size_t>(worker)];
  --groups_[g].staff;
  note(g);
}

std::optional<std::size_t> GroupLoads::best(int execution_class) const {
  std::optional<std::size_t> best;
  std::optional<Share> least;
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    const Class& of = classes_[c];
    if (execution_class >= 0 && static_cast<int>(c) != execution_class) {
      continue;
    }
    const FirstLeast<Share>& shares = of.shares[of.is_long ? 1 : 0];
    const std::optional<std::size_t> first = shares.first();
    if (first && (!least || shares.key(*first) < *least)) {
      least = shares.key(*first);
      best = of.first + *first;
    }
  }
  return best;
}

std::optional<std::size_t> GroupLoads::fullest(int execution_class) const {
  const Class& of = at(execution_class);
  const std::optional<std::size_t> place = of.negative_loads.first();
  return place ? std::optional(of.first + *place) : std::nullopt;
}

std::optional<std::size_t> GroupLoads::emptiest(int execution_class) const {
  const Class& of = at(execution_class);
  const std::optional<std::size_t> place = of.loads.first();
  return place ? std::optional(of.first + *place) : std::nullopt;
}

}  // namespace troupe::actors

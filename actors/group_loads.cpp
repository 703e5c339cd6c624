#include "actors/group_loads.h"

#include <algorithm>

namespace troupe::actors {

// ---- who is there

void GroupLoads::make_room(int number, int execution_class) {
  const auto w = static_cast<std::size_t>(number);
  const auto c = static_cast<std::size_t>(execution_class);
  workers_.resize(std::max(workers_.size(), w + 1));
  classes_.resize(std::max(classes_.size(), c + 1));
  workers_[w].execution_class = execution_class;
}

void GroupLoads::set_capacity(Group& group, samplers::InFlight capacity) {
  const auto at_least_one = [](int most) {
    return static_cast<std::size_t>(std::max(most, 1));
  };
  group.most = {at_least_one(capacity.most),
                at_least_one(capacity.most_of_long_grants)};
}

void GroupLoads::add_group(WorkerGroup made, samplers::InFlight capacity) {
  const std::size_t g = groups_.size();
  for (const int number : made.workers) {
    make_room(number, made.execution_class);
  }
  Class& of = at(made.execution_class);
  Group& group = groups_.emplace_back();
  group.workers.execution_class = made.execution_class;
  group.place = of.groups.size();
  set_capacity(group, capacity);
  of.groups.push_back(g);
  of.shares[0].add_place();
  of.shares[1].add_place();
  of.loads.add_place();
  of.negative_loads.add_place();
  take_places(g, made.workers);
}

void GroupLoads::add_worker(int number, int execution_class,
                            samplers::InFlight capacity) {
  make_room(number, execution_class);
  Class& of = at(execution_class);
  if (!of.short_handed.empty()) {
    const std::size_t g = of.short_handed.begin()->second;
    if (groups_[g].staff == 0) {
      set_capacity(groups_[g], capacity);
    }
    take_places(g, {number});
    return;
  }
  of.spares.push_back(number);
  if (of.spares.size() == num_parts_ || of.groups.empty()) {
    add_group({std::exchange(of.spares, {}), execution_class}, capacity);
  }
}

/// Gives the workers the places of workers that have gone, or new places.
void GroupLoads::take_places(std::size_t g, const std::vector<int>& takers) {
  Group& group = groups_[g];
  std::vector<int>& places = group.workers.workers;
  for (const int number : takers) {
    const auto empty = std::ranges::find_if(
        places, [&](int there) { return worker(there).group != g; });
    if (empty != places.end()) {
      *empty = number;
    } else {
      places.push_back(number);
    }
    Worker& taker = worker(number);
    taker.group = g;
    group.unheard += taker.was_heard_of ? 0 : 1;
    group.was_up = group.was_up || taker.was_up;
  }
  set_staff(g, group.staff + takers.size());
}

void GroupLoads::set_staff(std::size_t g, std::size_t staff) {
  Group& group = groups_[g];
  auto& short_handed = at(class_of(g)).short_handed;
  short_handed.erase({num_parts_ - group.staff, g});
  group.staff = staff;
  group.is_full = false;  // with other processes
  if (staff < num_parts_) {
    short_handed.emplace(num_parts_ - staff, g);
  }
  if (staff == 0) {
    group.was_up = false;
    group.is_open = false;
    group.is_left_out = false;
    group.is_new = true;
  }
  note(g);
}

void GroupLoads::heard_of(int number) {
  Worker& one = worker(number);
  one.was_heard_of = true;
  if (one.group) {
    --groups_[*one.group].unheard;
    note(*one.group);
  }
}

void GroupLoads::came_up(int number) {
  Worker& one = worker(number);
  one.was_up = true;
  if (one.group && !groups_[*one.group].was_up) {
    groups_[*one.group].was_up = true;
    note(*one.group);
  }
}

void GroupLoads::remove_worker(int number) {
  Worker& one = worker(number);
  std::vector<int>& spares = at(one.execution_class).spares;
  if (!one.group) {
    std::erase(spares, number);
    return;
  }
  const std::size_t g = *std::exchange(one.group, std::nullopt);
  groups_[g].unheard -= one.was_heard_of ? 0 : 1;
  set_staff(g, groups_[g].staff - 1);
  if (!spares.empty()) {
    const int spare = spares.front();
    spares.erase(spares.begin());
    take_places(g, {spare});
  }
}

// ---- what they have

/// The group's load or staff has changed.
void GroupLoads::note(std::size_t g) {
  Group& group = groups_[g];
  Class& of = at(class_of(g));
  const std::size_t load = group.samples.size();
  if (group.staff == 0) {
    of.shares[0].set(group.place, {});
    of.shares[1].set(group.place, {});
    of.loads.set(group.place, {});
    of.negative_loads.set(group.place, {});
    return;
  }
  group.is_open = group.is_open || (group.was_up && group.unheard == 0);
  const bool waits = !group.is_open;
  const int turn = waits ? 2 : group.is_full || group.is_left_out ? 1 : 0;
  of.shares[0].set(group.place,
                   Share{turn, load, group.most[0], group.row_seconds});
  of.shares[1].set(group.place,
                   Share{turn, load, group.most[1], group.row_seconds});
  of.loads.set(group.place, std::pair(waits || group.is_left_out, load));
  of.negative_loads.set(group.place, -static_cast<std::int64_t>(load));
}

void GroupLoads::set_full(std::size_t g, bool is_full) {
  groups_[g].is_full = is_full;
  note(g);
}

void GroupLoads::set_left_out(std::size_t g, bool is_left_out) {
  groups_[g].is_left_out = is_left_out;
  note(g);
}

void GroupLoads::set_row_seconds(std::size_t g, double row_seconds) {
  groups_[g].row_seconds = row_seconds > 0 ? row_seconds : kUnknown;
  note(g);
}

void GroupLoads::add(std::size_t g, std::uint64_t sample_index) {
  groups_[g].samples.insert(sample_index);
  groups_[g].is_new = false;
  note(g);
}

void GroupLoads::remove(std::size_t g, std::uint64_t sample_index) {
  groups_[g].samples.erase(sample_index);
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
      best = of.groups[*first];
    }
  }
  return best;
}

bool GroupLoads::has_open() const {
  const std::optional<std::size_t> one = best(-1);
  return one && is_open(*one);
}

bool GroupLoads::has_groups(int execution_class) const {
  return static_cast<std::size_t>(execution_class) < classes_.size();
}

std::optional<std::size_t> GroupLoads::fullest(int execution_class) const {
  if (!has_groups(execution_class)) {
    return std::nullopt;
  }
  const Class& of = at(execution_class);
  const std::optional<std::size_t> place = of.negative_loads.first();
  return place ? std::optional(of.groups[*place]) : std::nullopt;
}

std::optional<std::size_t> GroupLoads::emptiest(int execution_class) const {
  if (!has_groups(execution_class)) {
    return std::nullopt;
  }
  const Class& of = at(execution_class);
  const std::optional<std::size_t> place = of.loads.first();
  return place ? std::optional(of.groups[*place]) : std::nullopt;
}

}  // namespace troupe::actors

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "actors/first_least.h"
#include "actors/plan.h"
#include "samplers/parallel/method_row.h"

namespace troupe::actors {

/// Which samples the groups of workers have in flight, and which group has the
/// most room. Of groups that are alike the fastest is chosen, as far as speeds
/// were known from the start, and else the first.
///
///   waits ──each of its workers was heard of, and one was up──▶ open
///     └────────────── its last worker leaves ──────────────────┘
///                                ▼
///                             deserted ──a worker takes a place──▶ waits
///
/// A group that waits is chosen only where no other is left; a deserted one
/// never.
/// Cost: at most logarithmic in groups and samples, where the group or worker
/// is new on average, and linear in classes where the class is any. Thread:
/// one.
class GroupLoads {
 public:
  /// `num_parts`: the workers of a whole group.
  explicit GroupLoads(int num_parts)
      : num_parts_(static_cast<std::size_t>(num_parts)) {}

  /// The group has at most `capacity` samples. Classes are numbered from 0 on.
  void add_group(WorkerGroup group, samplers::InFlight capacity);
  /// A worker that comes later takes an empty place, in the group with the
  /// fewest empty places. If no place is empty, the worker is a spare until the
  /// spares of its class make a whole group. The first worker of a class is a
  /// group by itself.
  void add_worker(int worker, int execution_class, samplers::InFlight capacity);

  /// Seconds that a row takes on all of the group's workers together, as
  /// measured in earlier jobs.
  void set_row_seconds(std::size_t g, double row_seconds);

  [[nodiscard]] std::size_t size() const { return groups_.size(); }
  [[nodiscard]] const WorkerGroup& group(std::size_t g) const {
    return groups_[g].workers;
  }
  [[nodiscard]] int class_of(std::size_t g) const {
    return groups_[g].workers.execution_class;
  }
  /// In which the worker has a place; none: it is a spare, or has gone.
  [[nodiscard]] std::optional<std::size_t> group_of(int worker) const {
    return workers_[static_cast<std::size_t>(worker)].group;
  }
  [[nodiscard]] const std::set<std::uint64_t>& samples(std::size_t g) const {
    return groups_[g].samples;
  }
  /// Samples in flight.
  [[nodiscard]] std::size_t load(std::size_t g) const {
    return groups_[g].samples.size();
  }
  /// The most samples that the group takes at a time.
  [[nodiscard]] std::size_t most(std::size_t g) const {
    return groups_[g].most[kind_of(class_of(g))];
  }
  /// Whether a worker of the group may still work, now or later.
  [[nodiscard]] bool is_staffed(std::size_t g) const {
    return groups_[g].staff > 0;
  }
  [[nodiscard]] bool is_open(std::size_t g) const { return groups_[g].is_open; }
  [[nodiscard]] bool has_open() const;
  /// A full group is chosen only where no other can take a sample.
  void set_full(std::size_t g, bool is_full);
  [[nodiscard]] bool is_full(std::size_t g) const { return groups_[g].is_full; }
  /// Of a slow link: the group is chosen only where no other can take a sample.
  void set_left_out(std::size_t g, bool is_left_out);
  [[nodiscard]] bool is_left_out(std::size_t g) const {
    return groups_[g].is_left_out;
  }
  /// Whether the group has had no sample since its first worker came.
  [[nodiscard]] bool is_new(std::size_t g) const { return groups_[g].is_new; }

  void add(std::size_t g, std::uint64_t sample_index);
  void remove(std::size_t g, std::uint64_t sample_index);
  /// The worker has reported, for whatever reason. Once for each.
  void heard_of(int worker);
  /// An incarnation of it has begun.
  void came_up(int worker);
  /// The worker has left the job. A spare takes its place.
  void remove_worker(int worker);
  /// Which capacity counts: see samplers::InFlight. At first the capacity of
  /// long grants.
  void set_long_grants(int execution_class, bool is_long) {
    classes_[static_cast<std::size_t>(execution_class)].is_long = is_long;
  }

  /// The group of the class (any: −1) that is filled to the least share.
  [[nodiscard]] std::optional<std::size_t> best(int execution_class) const;
  /// The groups of the class with the most samples, and with the fewest.
  /// Nothing for a class without groups.
  [[nodiscard]] std::optional<std::size_t> fullest(int execution_class) const;
  [[nodiscard]] std::optional<std::size_t> emptiest(int execution_class) const;
  /// The last sample of a group that has one.
  [[nodiscard]] std::uint64_t youngest(std::size_t g) const {
    return *groups_[g].samples.rbegin();
  }

 private:
  static constexpr double kUnknown = std::numeric_limits<double>::infinity();

  struct Group {
    WorkerGroup workers;
    std::size_t place = 0;              ///< among the groups of its class
    std::array<std::size_t, 2> most{};  ///< of short grants, of long ones
    double row_seconds = kUnknown;
    std::size_t staff = 0;
    std::size_t unheard = 0;  ///< of the staff, were not heard of
    bool was_up = false;      ///< one of them
    bool is_open = false;
    bool is_full = false;
    bool is_left_out = false;
    bool is_new = true;
    std::set<std::uint64_t> samples;
  };
  struct Worker {
    std::optional<std::size_t> group;  ///< none: a spare, or gone
    int execution_class = 0;
    bool was_heard_of = false;
    bool was_up = false;
  };
  /// A part of a group's capacity.
  struct Share {
    int turn = 0;  ///< whose is later is chosen only where nobody else is
    std::size_t load = 0;
    std::size_t most = 1;
    double row_seconds = kUnknown;
    friend bool operator<(const Share& a, const Share& b) {
      if (a.turn != b.turn) {
        return a.turn < b.turn;
      }
      const std::size_t of_a = a.load * b.most;
      const std::size_t of_b = b.load * a.most;
      return of_a != of_b ? of_a < of_b : a.row_seconds < b.row_seconds;
    }
  };
  struct Class {
    std::vector<std::size_t> groups;  ///< by place
    bool is_long = true;
    std::array<FirstLeast<Share>, 2> shares;
    FirstLeast<std::pair<bool, std::size_t>> loads;  ///< whether last, load
    FirstLeast<std::int64_t> negative_loads;
    /// Groups with empty places: how many, and which.
    std::set<std::pair<std::size_t, std::size_t>> short_handed;
    std::vector<int> spares;
  };

  [[nodiscard]] std::size_t kind_of(int execution_class) const {
    return at(execution_class).is_long ? 1 : 0;
  }
  [[nodiscard]] const Class& at(int execution_class) const {
    return classes_[static_cast<std::size_t>(execution_class)];
  }
  [[nodiscard]] Class& at(int execution_class) {
    return classes_[static_cast<std::size_t>(execution_class)];
  }
  [[nodiscard]] Worker& worker(int number) {
    return workers_[static_cast<std::size_t>(number)];
  }
  /// Somebody of it has come.
  [[nodiscard]] bool has_groups(int execution_class) const;
  void make_room(int worker, int execution_class);
  void take_places(std::size_t g, const std::vector<int>& takers);
  void set_capacity(Group& group, samplers::InFlight capacity);
  void set_staff(std::size_t g, std::size_t staff);
  void note(std::size_t g);

  std::size_t num_parts_;
  std::vector<Group> groups_;
  std::vector<Class> classes_;
  std::vector<Worker> workers_;
};

}  // namespace troupe::actors

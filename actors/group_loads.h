#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "actors/first_least.h"
#include "actors/plan.h"
#include "samplers/parallel/method_row.h"

namespace troupe::actors {

/// Which samples the groups of workers have in flight, and which group has the
/// most room. A group that nobody works for any more takes no part in choices.
/// Of groups that are alike the first is chosen.
/// Cost: at most logarithmic in groups and samples, and linear in classes where
/// the class is any. Thread: one.
class GroupLoads {
 public:
  /// `capacities`: the most samples of each group. Groups of one class stand
  /// together, classes in their order. Classes are numbered from 0 on.
  GroupLoads(std::vector<WorkerGroup> groups,
             std::vector<samplers::InFlight> capacities, int num_classes);

  [[nodiscard]] std::size_t size() const { return groups_.size(); }
  [[nodiscard]] const WorkerGroup& group(std::size_t g) const {
    return groups_[g].workers;
  }
  [[nodiscard]] int class_of(std::size_t g) const {
    return groups_[g].workers.execution_class;
  }
  /// Samples in flight.
  [[nodiscard]] std::size_t load(std::size_t g) const {
    return groups_[g].samples.size();
  }
  /// The most of them that it is to have.
  [[nodiscard]] std::size_t most(std::size_t g) const {
    return groups_[g].most[kind_of(class_of(g))];
  }
  /// Whether a worker of the group may still work, now or later.
  [[nodiscard]] bool is_staffed(std::size_t g) const {
    return groups_[g].staff > 0;
  }

  void add(std::size_t g, std::uint64_t sample_index);
  void remove(std::size_t g, std::uint64_t sample_index);
  /// One of the class's workers has gone for good.
  void leave(int worker);
  /// Which capacity counts: see samplers::InFlight. At first that of long ones.
  void set_long_grants(int execution_class, bool is_long) {
    classes_[static_cast<std::size_t>(execution_class)].is_long = is_long;
  }

  /// The group of the class (any: −1) that is filled to the least share.
  [[nodiscard]] std::optional<std::size_t> best(int execution_class) const;
  /// The groups of the class with the most samples, and with the least.
  [[nodiscard]] std::optional<std::size_t> fullest(int execution_class) const;
  [[nodiscard]] std::optional<std::size_t> emptiest(int execution_class) const;
  /// The last sample of a group that has one.
  [[nodiscard]] std::uint64_t youngest(std::size_t g) const {
    return *groups_[g].samples.rbegin();
  }

 private:
  struct Group {
    WorkerGroup workers;
    std::array<std::size_t, 2> most{};  ///< of short grants, of long ones
    std::size_t staff = 0;
    std::set<std::uint64_t> samples;
  };
  /// A part of a group's capacity.
  struct Share {
    std::size_t load = 0;
    std::size_t most = 1;
    friend bool operator<(const Share& a, const Share& b) {
      return a.load * b.most < b.load * a.most;
    }
  };
  struct Class {
    std::size_t first = 0;  ///< group
    bool is_long = true;
    std::array<FirstLeast<Share>, 2> shares;
    FirstLeast<std::size_t> loads;
    FirstLeast<std::int64_t> negative_loads;
  };

  [[nodiscard]] std::size_t kind_of(int execution_class) const {
    return at(execution_class).is_long ? 1 : 0;
  }
  [[nodiscard]] const Class& at(int execution_class) const {
    return classes_[static_cast<std::size_t>(execution_class)];
  }
  void note(std::size_t g);

  std::vector<Group> groups_;
  std::vector<Class> classes_;
  std::vector<std::size_t> group_of_;  ///< by worker
};

}  // namespace troupe::actors

// Choices among groups, each against a plain search through all.

#include "actors/group_loads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "tests/actors/some_classes.h"

namespace troupe::actors {
namespace {

struct PlainGroup {
  int execution_class = 0;
  std::size_t most[2] = {};  ///< of short grants, of long ones
  std::set<int> staff;
  bool was_up = false;  ///< a worker of it
  bool is_open = false;
  bool is_new = true;
  std::set<std::uint64_t> samples;
};

/// The first group that is better than all before it, class by class.
template <typename Better>
std::optional<std::size_t> plain_best(const std::vector<PlainGroup>& groups,
                                      int execution_class,
                                      const Better& better) {
  std::optional<std::size_t> best;
  for (int c = 0; c < kNumClasses; ++c) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const bool fits = groups[g].execution_class == c &&
                        (execution_class < 0 || execution_class == c);
      if (fits && !groups[g].staff.empty() &&
          (!best || better(groups[g], groups[*best]))) {
        best = g;
      }
    }
  }
  return best;
}

class PlainGroups {
 public:
  explicit PlainGroups(std::mt19937& random)
      : num_parts(1 + below(random, 3)), loads(num_parts), random_(random) {
    classes_ = some_classes(11);
    heard_of_.resize(classes_.size());
    for (const WorkerGroup& group : group_workers(classes_, num_parts)) {
      loads.add_group(group, add_group(group));
    }
  }

  void change() {
    switch (below(random_, 40)) {
      case 0:
        leave();
        return;
      case 1:
        join();
        return;
      case 2:
      case 3: {
        const int c = below(random_, kNumClasses);
        is_long[c] = !is_long[c];
        loads.set_long_grants(c, is_long[c]);
        return;
      }
      case 4:
      case 5:
      case 6:
        report();
        return;
      default:
        change_load();
    }
  }

  [[nodiscard]] std::size_t most(const PlainGroup& group) const {
    return group.most[is_long[group.execution_class] ? 1 : 0];
  }

  int num_parts;
  std::vector<PlainGroup> groups;
  GroupLoads loads;
  bool is_long[kNumClasses] = {true, true, true};

 private:
  samplers::InFlight some_capacity(PlainGroup& plain) {
    const samplers::InFlight capacity{below(random_, 5), below(random_, 4)};
    plain.most[0] = static_cast<std::size_t>(std::max(capacity.most, 1));
    plain.most[1] =
        static_cast<std::size_t>(std::max(capacity.most_of_long_grants, 1));
    return capacity;
  }
  samplers::InFlight add_group(const WorkerGroup& group) {
    PlainGroup& plain = groups.emplace_back();
    plain.execution_class = group.execution_class;
    plain.staff = {group.workers.begin(), group.workers.end()};
    return some_capacity(plain);
  }
  [[nodiscard]] int some_worker() {
    return below(random_, static_cast<int>(classes_.size()));
  }
  PlainGroup* group_of(int worker) {
    const auto found = std::ranges::find_if(groups, [&](const auto& group) {
      return group.staff.contains(worker);
    });
    return found == groups.end() ? nullptr : &*found;
  }
  void look_at(PlainGroup& group) {
    const auto was_up = [this](int worker) { return up_.contains(worker); };
    const auto is_known = [this](int worker) {
      return heard_of_[static_cast<std::size_t>(worker)];
    };
    group.was_up = group.was_up || std::ranges::any_of(group.staff, was_up);
    group.is_open =
        group.is_open ||
        (group.was_up && std::ranges::all_of(group.staff, is_known));
  }
  void take_place(PlainGroup& group, int worker) {
    group.staff.insert(worker);
    look_at(group);
  }

  void leave() {
    const int worker = some_worker();
    if (gone_.insert(worker).second) {
      loads.remove_worker(worker);
      if (PlainGroup* group = group_of(worker)) {
        auto& spares = spares_[group->execution_class];
        group->staff.erase(worker);
        if (group->staff.empty()) {
          group->was_up = group->is_open = false;
          group->is_new = true;
        } else {
          look_at(*group);
        }
        if (!spares.empty()) {
          take_place(*group, spares.front());
          spares.erase(spares.begin());
        }
      } else {
        std::erase(spares_[classes_[static_cast<std::size_t>(worker)]], worker);
      }
    }
  }
  void join() {
    const int worker = static_cast<int>(classes_.size());
    const int c = below(random_, kNumClasses);
    classes_.push_back(c);
    heard_of_.push_back(false);
    PlainGroup* shortest = nullptr;
    bool is_first = true;
    for (PlainGroup& group : groups) {
      if (group.execution_class == c) {
        is_first = false;
        if (static_cast<int>(group.staff.size()) < num_parts &&
            (shortest == nullptr ||
             group.staff.size() > shortest->staff.size())) {
          shortest = &group;
        }
      }
    }
    PlainGroup unused;
    if (shortest != nullptr) {
      loads.add_worker(
          worker, c,
          some_capacity(shortest->staff.empty() ? *shortest : unused));
      take_place(*shortest, worker);
      return;
    }
    spares_[c].push_back(worker);
    samplers::InFlight capacity = some_capacity(unused);
    if (is_first || static_cast<int>(spares_[c].size()) == num_parts) {
      capacity = add_group({spares_[c], c});
      look_at(groups.back());
      spares_[c].clear();
    }
    loads.add_worker(worker, c, capacity);
  }
  void report() {
    const int worker = some_worker();
    const auto w = static_cast<std::size_t>(worker);
    if (gone_.contains(worker)) {
      return;
    }
    if (!heard_of_[w]) {
      heard_of_[w] = true;
      loads.heard_of(worker);
    }
    if (below(random_, 3) > 0) {
      up_.insert(worker);
      loads.came_up(worker);
    }
    if (PlainGroup* group = group_of(worker)) {
      look_at(*group);
    }
  }
  void change_load() {
    const auto g = static_cast<std::size_t>(
        below(random_, static_cast<int>(groups.size())));
    PlainGroup& group = groups[g];
    if (below(random_, 2) == 0 && !group.samples.empty()) {
      const std::uint64_t index = *group.samples.begin();
      loads.remove(g, index);
      group.samples.erase(index);
    } else {
      const std::uint64_t index = random_() % 100000;
      loads.add(g, index);
      group.samples.insert(index);
      group.is_new = false;
    }
  }

  std::mt19937& random_;
  std::vector<int> classes_;    ///< by worker
  std::vector<bool> heard_of_;  ///< by worker
  std::set<int> up_;
  std::set<int> gone_;
  std::map<int, std::vector<int>> spares_;  ///< by class
};

// A job can know a class before the first worker of the class comes.
TEST(GroupLoads, HaveNoGroupOfAClassThatNobodyIsOf) {
  GroupLoads loads(1);
  EXPECT_FALSE(loads.fullest(0));
  EXPECT_FALSE(loads.emptiest(0));
  loads.add_group({{0}, 0}, {.most = 2, .most_of_long_grants = 2});
  EXPECT_TRUE(loads.fullest(0));
  EXPECT_FALSE(loads.fullest(1));
  EXPECT_FALSE(loads.emptiest(1));
}

TEST(GroupLoads, AreChosenAsByAPlainSearch) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    PlainGroups plain(random);
    for (int i = 0; i < 2000; ++i) {
      plain.change();
      const auto better = [&plain](const PlainGroup& a, const PlainGroup& b) {
        return a.is_open != b.is_open ? a.is_open
                                      : a.samples.size() * plain.most(b) <
                                            b.samples.size() * plain.most(a);
      };
      const auto fuller = [](const PlainGroup& a, const PlainGroup& b) {
        return a.samples.size() > b.samples.size();
      };
      const auto emptier = [](const PlainGroup& a, const PlainGroup& b) {
        return a.is_open != b.is_open ? a.is_open
                                      : a.samples.size() < b.samples.size();
      };
      bool has_open = false;
      for (int c = -1; c < kNumClasses; ++c) {
        ASSERT_EQ(plain.loads.best(c), plain_best(plain.groups, c, better))
            << "seed " << seed << ", change " << i;
      }
      for (int c = 0; c < kNumClasses; ++c) {
        ASSERT_EQ(plain.loads.fullest(c), plain_best(plain.groups, c, fuller));
        ASSERT_EQ(plain.loads.emptiest(c),
                  plain_best(plain.groups, c, emptier));
      }
      ASSERT_EQ(plain.loads.size(), plain.groups.size());
      for (std::size_t g = 0; g < plain.groups.size(); ++g) {
        const PlainGroup& group = plain.groups[g];
        has_open = has_open || group.is_open;
        ASSERT_EQ(plain.loads.is_staffed(g), !group.staff.empty());
        ASSERT_EQ(plain.loads.is_open(g), group.is_open);
        ASSERT_EQ(plain.loads.is_new(g), group.is_new);
        ASSERT_EQ(plain.loads.load(g), group.samples.size());
        ASSERT_EQ(plain.loads.most(g), plain.most(group));
        const std::vector<int>& places = plain.loads.group(g).workers;
        ASSERT_TRUE(std::ranges::all_of(group.staff,
                                        [&](int worker) {
                                          return std::ranges::count(
                                                     places, worker) == 1;
                                        }))
            << "seed " << seed << ", change " << i;
        if (!group.samples.empty()) {
          ASSERT_EQ(plain.loads.youngest(g), *group.samples.rbegin());
        }
      }
      ASSERT_EQ(plain.loads.has_open(), has_open);
    }
  }
}

}  // namespace
}  // namespace troupe::actors

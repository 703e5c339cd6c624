// Choices among workers and groups, each against a plain search through all.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "actors/group_loads.h"
#include "actors/live_workers.h"

namespace troupe::actors {
namespace {

constexpr int kNumClasses = 3;

int below(std::mt19937& random, int end) {
  return static_cast<int>(random() % static_cast<unsigned>(end));
}

/// The last class has one worker.
std::vector<int> some_classes(int workers) {
  std::vector<int> classes(static_cast<std::size_t>(workers));
  for (std::size_t w = 0; w + 1 < classes.size(); ++w) {
    classes[w] = static_cast<int>(w % 2);
  }
  classes.back() = kNumClasses - 1;
  return classes;
}

TEST(FirstLeast, IsTheFirstOfTheLeast) {
  std::mt19937 random(1);
  for (const std::size_t size : {1U, 2U, 5U, 8U, 33U}) {
    FirstLeast<int> tree;
    std::vector<std::optional<int>> keys;
    EXPECT_FALSE(tree.first());
    for (int i = 0; i < 2000; ++i) {
      if (keys.empty() || (keys.size() < size && below(random, 20) == 0)) {
        tree.add_place();
        keys.emplace_back();
      }
      const std::size_t place = random() % keys.size();
      keys[place] = below(random, 3) == 0 ? std::nullopt
                                          : std::optional(below(random, 4));
      tree.set(place, keys[place]);
      std::optional<std::size_t> first;
      for (std::size_t k = 0; k < keys.size(); ++k) {
        if (keys[k] && (!first || *keys[k] < *keys[*first])) {
          first = k;
        }
      }
      ASSERT_EQ(tree.first(), first) << "size " << size << ", change " << i;
    }
  }
}

struct PlainWorker {
  bool is_alive = false;
  LiveWorkers::Load load;
};

int plain_least_loaded(const std::vector<PlainWorker>& workers,
                       const std::vector<int>& classes, int execution_class,
                       double now) {
  double time = 0;
  double rows = 0;
  for (std::size_t w = 0; w < workers.size(); ++w) {
    if (classes[w] == execution_class) {
      time += workers[w].load.row_seconds;
      rows += workers[w].load.num_rows;
    }
  }
  const double usual = time > 0 ? time / rows : 1.0;
  int best = -1;
  double least = 0;
  for (std::size_t w = 0; w < workers.size(); ++w) {
    const LiveWorkers::Load& load = workers[w].load;
    if (!workers[w].is_alive || classes[w] != execution_class) {
      continue;
    }
    const double row =
        load.row_seconds > 0 ? load.row_seconds / load.num_rows : usual;
    const double spent =
        load.row_seconds > 0
            ? std::clamp(now - load.since, 0.0, row * load.at_once)
            : 0.0;
    const double end = row * (load.tasks + 1) - spent;
    if (best < 0 || end < least) {
      best = static_cast<int>(w);
      least = end;
    }
  }
  return best;
}

int plain_next(const std::vector<PlainWorker>& workers,
               const std::vector<int>& classes, int execution_class,
               int first) {
  for (std::size_t k = 0; k < workers.size(); ++k) {
    const std::size_t w =
        (static_cast<std::size_t>(first) + k) % workers.size();
    if (workers[w].is_alive && classes[w] == execution_class) {
      return static_cast<int>(w);
    }
  }
  return -1;
}

TEST(LiveWorkers, AreChosenAsByAPlainSearch) {
  for (const int num_workers : {1, 2, 7, 64}) {
    std::mt19937 random(static_cast<unsigned>(num_workers));
    const std::vector<int> all_classes = some_classes(num_workers);
    std::vector<int> classes;
    LiveWorkers live;
    std::vector<PlainWorker> plain;
    double now = 100;
    for (int i = 0; i < 5000; ++i) {
      now += 0.25 * below(random, 3);
      if (plain.empty() ||
          (plain.size() < all_classes.size() && below(random, 20) == 0)) {
        classes.push_back(all_classes[plain.size()]);
        live.add(classes.back());
        plain.emplace_back();
      }
      const int w = below(random, static_cast<int>(plain.size()));
      PlainWorker& worker = plain[static_cast<std::size_t>(w)];
      if (below(random, 4) == 0) {
        worker.is_alive = below(random, 3) > 0;
        live.set_alive(w, worker.is_alive);
      } else {
        // Sums of quarters are exact in any order; the speed of half of the
        // workers stays unknown for long.
        const int rows = 1 + below(random, 4);
        const bool is_known =
            worker.load.row_seconds > 0 || below(random, 40) == 0;
        worker.load = {.row_seconds = is_known
                                          ? rows * 0.25 * (1 + below(random, 3))
                                          : 0.0,
                       .num_rows = is_known ? rows : 0.0,
                       .tasks = below(random, 5),
                       .since = now - 0.25 * below(random, 20)};
        worker.load.at_once = std::min(worker.load.tasks, 1 + below(random, 3));
        live.set_load(w, worker.load);
      }
      for (int c = 0; c < kNumClasses; ++c) {
        const bool exists = std::ranges::find(classes, c) != classes.end();
        if (exists) {
          ASSERT_EQ(live.least_loaded(c, now),
                    plain_least_loaded(plain, classes, c, now))
              << num_workers << " workers, change " << i;
          ASSERT_EQ(live.next(c, w), plain_next(plain, classes, c, w))
              << num_workers << " workers, change " << i;
        }
      }
    }
  }
}

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
      loads.leave(worker);
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

// Choices among workers and groups, each against a plain search through all.

#include <gtest/gtest.h>

#include <algorithm>
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
    FirstLeast<int> tree(size);
    std::vector<std::optional<int>> keys(size);
    EXPECT_FALSE(tree.first());
    for (int i = 0; i < 2000; ++i) {
      const std::size_t place = random() % size;
      keys[place] = below(random, 3) == 0 ? std::nullopt
                                          : std::optional(below(random, 4));
      tree.set(place, keys[place]);
      std::optional<std::size_t> first;
      for (std::size_t k = 0; k < size; ++k) {
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
    const std::vector<int> classes = some_classes(num_workers);
    LiveWorkers live(classes);
    std::vector<PlainWorker> plain(classes.size());
    double now = 100;
    for (int i = 0; i < 5000; ++i) {
      now += 0.25 * below(random, 3);
      const int w = below(random, num_workers);
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
  std::set<std::uint64_t> samples;
};

/// The first group that is better than all before it.
template <typename Better>
std::optional<std::size_t> plain_best(const std::vector<PlainGroup>& groups,
                                      int execution_class,
                                      const Better& better) {
  std::optional<std::size_t> best;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const bool fits =
        execution_class < 0 || groups[g].execution_class == execution_class;
    if (fits && !groups[g].staff.empty() &&
        (!best || better(groups[g], groups[*best]))) {
      best = g;
    }
  }
  return best;
}

class PlainGroups {
 public:
  explicit PlainGroups(std::mt19937& random) : random_(random) {
    const std::vector<WorkerGroup> made =
        group_workers(some_classes(23), 1 + below(random, 3));
    std::vector<samplers::InFlight> capacities;
    for (const WorkerGroup& group : made) {
      capacities.push_back({below(random, 5), below(random, 4)});
      PlainGroup& plain = groups.emplace_back();
      plain.execution_class = group.execution_class;
      plain.most[0] =
          static_cast<std::size_t>(std::max(capacities.back().most, 1));
      plain.most[1] = static_cast<std::size_t>(
          std::max(capacities.back().most_of_long_grants, 1));
      plain.staff = {group.workers.begin(), group.workers.end()};
    }
    loads.emplace(made, capacities, kNumClasses);
  }

  void change() {
    const auto g = static_cast<std::size_t>(
        below(random_, static_cast<int>(groups.size())));
    PlainGroup& group = groups[g];
    switch (below(random_, 40)) {
      case 0:
        if (!group.staff.empty()) {
          loads->leave(*group.staff.begin());
          group.staff.erase(group.staff.begin());
        }
        return;
      case 1:
      case 2: {
        const int c = below(random_, kNumClasses);
        is_long[c] = !is_long[c];
        loads->set_long_grants(c, is_long[c]);
        return;
      }
      default:
        if (below(random_, 2) == 0 && !group.samples.empty()) {
          const std::uint64_t index = *group.samples.begin();
          loads->remove(g, index);
          group.samples.erase(index);
        } else {
          const std::uint64_t index = random_() % 100000;
          loads->add(g, index);
          group.samples.insert(index);
        }
    }
  }

  [[nodiscard]] std::size_t most(const PlainGroup& group) const {
    return group.most[is_long[group.execution_class] ? 1 : 0];
  }

  std::vector<PlainGroup> groups;
  std::optional<GroupLoads> loads;
  bool is_long[kNumClasses] = {true, true, true};

 private:
  std::mt19937& random_;
};

TEST(GroupLoads, AreChosenAsByAPlainSearch) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    PlainGroups plain(random);
    for (int i = 0; i < 2000; ++i) {
      plain.change();
      for (int c = -1; c < kNumClasses; ++c) {
        ASSERT_EQ(plain.loads->best(c),
                  plain_best(plain.groups, c,
                             [&](const PlainGroup& a, const PlainGroup& b) {
                               return a.samples.size() * plain.most(b) <
                                      b.samples.size() * plain.most(a);
                             }))
            << "seed " << seed << ", change " << i;
      }
      for (int c = 0; c < kNumClasses; ++c) {
        ASSERT_EQ(plain.loads->fullest(c),
                  plain_best(plain.groups, c,
                             [](const PlainGroup& a, const PlainGroup& b) {
                               return a.samples.size() > b.samples.size();
                             }));
        ASSERT_EQ(plain.loads->emptiest(c),
                  plain_best(plain.groups, c,
                             [](const PlainGroup& a, const PlainGroup& b) {
                               return a.samples.size() < b.samples.size();
                             }));
      }
      for (std::size_t g = 0; g < plain.groups.size(); ++g) {
        const PlainGroup& group = plain.groups[g];
        ASSERT_EQ(plain.loads->is_staffed(g), !group.staff.empty());
        ASSERT_EQ(plain.loads->load(g), group.samples.size());
        ASSERT_EQ(plain.loads->most(g), plain.most(group));
        if (!group.samples.empty()) {
          ASSERT_EQ(plain.loads->youngest(g), *group.samples.rbegin());
        }
      }
    }
  }
}

}  // namespace
}  // namespace troupe::actors

// Choices among workers, each against a plain search through all.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "actors/live_workers.h"
#include "tests/actors/some_classes.h"

namespace troupe::actors {
namespace {

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
  int process = 0;
  bool is_alive = false;
  LiveWorkers::Load load;
};

/// Of workers of unknown speed only the first counts that has the fewest tasks
/// with its reserve, and of these the best link.
int plain_least_loaded(const std::vector<PlainWorker>& workers,
                       const std::vector<int>& classes, int execution_class,
                       double now, int process) {
  double time = 0;
  double rows = 0;
  for (std::size_t w = 0; w < workers.size(); ++w) {
    if (classes[w] == execution_class) {
      time += workers[w].load.row_seconds;
      rows += workers[w].load.num_rows;
    }
  }
  const double usual = time > 0 ? time / rows : 1.0;
  std::optional<std::size_t> unproven;
  double link = 0;  // of `process`
  for (std::size_t w = 0; w < workers.size(); ++w) {
    const LiveWorkers::Load& load = workers[w].load;
    link = workers[w].process == process ? load.link_seconds : link;
    const auto key = [&](std::size_t one) {
      const LiveWorkers::Load& of = workers[one].load;
      return std::pair(of.tasks + of.reserve, of.link_seconds);
    };
    if (workers[w].is_alive && classes[w] == execution_class &&
        !load.is_left_out && load.row_seconds == 0 &&
        (!unproven || key(w) < key(*unproven))) {
      unproven = w;
    }
  }
  int best = -1;
  double least = 0;
  for (std::size_t w = 0; w < workers.size(); ++w) {
    const LiveWorkers::Load& load = workers[w].load;
    const bool is_near = workers[w].process == process && link > 0;
    if (!workers[w].is_alive || classes[w] != execution_class ||
        load.is_left_out ||
        (load.row_seconds == 0 && w != unproven && !is_near)) {
      continue;
    }
    const double row =
        load.row_seconds > 0 ? load.row_seconds / load.num_rows : usual;
    const double spent =
        load.row_seconds > 0
            ? std::clamp(now - load.since, 0.0, row * load.at_once)
            : 0.0;
    const double end = row * (load.tasks + 1 + load.reserve) - spent +
                       (is_near ? -link : load.link_seconds);
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
    const auto link_of = [](const PlainWorker& worker) {
      return 0.25 * std::array{0, 0, 1, 3}.at(
                        static_cast<std::size_t>(worker.process));
    };
    double now = 100;
    for (int i = 0; i < 5000; ++i) {
      now += 0.25 * below(random, 3);
      if (plain.empty() ||
          (plain.size() < all_classes.size() && below(random, 20) == 0)) {
        classes.push_back(all_classes[plain.size()]);
        plain.push_back({.process = below(random, 4)});
        live.add(classes.back(), plain.back().process);
        plain.back().load.link_seconds = link_of(plain.back());
        live.set_load(static_cast<int>(plain.size()) - 1, plain.back().load);
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
        worker.load = {.link_seconds = link_of(worker),
                       .is_left_out = below(random, 8) == 0,
                       .reserve = 0.25 * below(random, 2),
                       .row_seconds = is_known
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
          const int process = below(random, 4);
          ASSERT_EQ(live.least_loaded(c, now, process),
                    plain_least_loaded(plain, classes, c, now, process))
              << num_workers << " workers, change " << i;
          ASSERT_EQ(live.next(c, w), plain_next(plain, classes, c, w))
              << num_workers << " workers, change " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace troupe::actors

// Onions: each part has first and last layers of the network, and keeps the
// skips between them; what is deeper is other parts'. Here are their turns;
// what runs compute is in onion_runs_test.cpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "kernels/core/error.h"
#include "samplers/parallel/marked_graph.h"
#include "tests/parallel/onion_options.h"
#include "tests/parallel/provenance.h"

namespace troupe::samplers {
namespace {

enum : int { kEncoder, kDeep, kDecoder, kStep };

struct Costs {
  std::int64_t encoder = 1;
  std::int64_t deep = 1;
  std::int64_t decoder = 1;
  std::int64_t hop = 0;
};

/// Of two parts.
MarkedGraph onion(int age, int warmup, int final_fresh = 0,
                  const Costs& costs = {}) {
  GraphTable table =
      make_stale_graph(stale_onion(2, age, warmup, final_fresh)).table();
  table.nodes[kEncoder].cost = costs.encoder;
  table.nodes[kDeep].cost = costs.deep;
  table.nodes[kDecoder].cost = costs.decoder;
  for (GraphEdge& edge : table.edges) {
    const bool crosses = edge.to == kDeep || edge.from.front() == kDeep;
    edge.latency = crosses ? costs.hop : 0;
  }
  return MarkedGraph(std::move(table));
}

TEST(Onion, FiresEveryTurnThatIsReadAndNamesWhatItReads) {
  struct Turn {
    int node, step;
    std::vector<int> inputs;  // by their places in this list
  };
  constexpr int kInitial = Firing::kInitial;
  const std::vector<Turn> expected = {
      {kEncoder, 0, {kInitial}},  // 0
      {kDeep, 0, {0}},
      {kDecoder, 0, {1, 0}},
      {kStep, 0, {kInitial, 2}},  // 3
      {kEncoder, 1, {3}},
      {kDeep, 1, {4}},
      {kDecoder, 1, {1, 4}},  // 6: the deep part of step 0, the skip of 1
      {kStep, 1, {3, 6}},
      {kEncoder, 2, {7}},  // 8: the deep part would serve nobody
      {kDecoder, 2, {5, 8}},
      {kStep, 2, {7, 9}}};
  const auto firings = onion(1, 1).firings(3);
  ASSERT_EQ(firings.size(), expected.size());
  for (std::size_t i = 0; i < firings.size(); ++i) {
    EXPECT_EQ(firings[i].node, expected[i].node) << i;
    EXPECT_EQ(firings[i].step, expected[i].step) << i;
    EXPECT_EQ(firings[i].timestep_call, expected[i].step) << i;
    EXPECT_EQ(firings[i].inputs, expected[i].inputs) << i;
  }
}

TEST(Onion, HasADeepPartOfItsAgeAndSkipsOfAgeZero) {
  constexpr int kSteps = 17;
  for (int age = 0; age <= 4; ++age) {
    for (const int warmup : {1, 2, 5}) {
      for (const int fresh : {0, 1, 3}) {
        const MarkedGraph graph = onion(age, warmup, fresh);
        const auto firings = graph.firings(kSteps);
        const auto step_of = [&](int firing) {
          return firings.at(static_cast<std::size_t>(firing)).step;
        };
        for (const Firing& firing : firings) {
          const int k = firing.step;
          const bool is_stale = k >= warmup && k < kSteps - fresh;
          // In the first steps there is nothing older than step 0.
          const int deep = is_stale ? std::max(0, k - age) : k;
          if (firing.node == kDecoder) {
            EXPECT_EQ(step_of(firing.inputs.at(0)), deep);
            EXPECT_EQ(step_of(firing.inputs.at(1)), k);
          } else if (firing.node == kDeep) {
            EXPECT_EQ(step_of(firing.inputs.at(0)), k);
          } else if (firing.node == kStep) {
            EXPECT_EQ(step_of(firing.inputs.at(1)), k);
            const Provenance trace = provenance(graph, firings, k);
            EXPECT_EQ(trace.segments,
                      (std::vector<TraceEntry>{{kDecoder, k, k},
                                               {kDeep, deep, deep},
                                               {kEncoder, deep, deep}}));
            EXPECT_EQ(trace.latents_call, deep);
          }
        }
      }
    }
  }
}

/// The last step of a run one part of which has stopped before step `stopped`.
int last_step_without(int part, const MarkedGraph& graph,
                      const std::vector<Firing>& firings, int stopped) {
  const int step = static_cast<int>(graph.nodes().size()) - 1;
  std::vector<bool> fired(firings.size());
  int last = -1;
  for (std::size_t i = 0; i < firings.size(); ++i) {
    const Firing& firing = firings[i];
    fired[i] = std::ranges::all_of(firing.inputs, [&](int input) {
      return input == Firing::kInitial ||
             fired[static_cast<std::size_t>(input)];
    });
    const bool is_late =
        graph.nodes().at(static_cast<std::size_t>(firing.node)).part == part;
    fired[i] = fired[i] && !(is_late && firing.step >= stopped);
    if (fired[i] && firing.node == step) {
      last = firing.step;
    }
  }
  return last;
}

/// Of 2 to 5 parts, any of which is late: the others go on by the ages between
/// them and it, and then wait. The first part makes the steps.
TEST(Onion, RunsItsAgesAheadOfALatePartAndThenWaits) {
  constexpr int kSteps = 24;
  for (int parts = 2; parts <= 5; ++parts) {
    for (int first_age = 0; first_age <= 3; ++first_age) {
      MethodOptions options = stale_onion(parts);
      for (int cut = 0; cut + 1 < parts; ++cut) {
        options.ages.push_back((first_age + 2 * cut) % 4);
      }
      const MarkedGraph graph = make_stale_graph(options);
      const auto firings = graph.firings(kSteps);
      int ahead = 0;
      for (int part = 1; part < parts; ++part) {
        ahead += options.ages[static_cast<std::size_t>(part) - 1];
        for (int stopped = 1; stopped + ahead <= kSteps; ++stopped) {
          EXPECT_EQ(last_step_without(part, graph, firings, stopped),
                    stopped - 1 + ahead)
              << parts << " parts, part " << part << " stopped before step "
              << stopped;
        }
      }
    }
  }
}

/// When the last step is done if every turn begins as soon as its inputs and
/// its part are there.
std::int64_t duration(const MarkedGraph& graph, int steps) {
  const auto firings = graph.firings(steps);
  std::vector<std::int64_t> done;
  std::map<int, std::int64_t> free;
  for (const Firing& firing : firings) {
    const GraphNode& node = graph.nodes().at(std::size_t(firing.node));
    std::int64_t start = free[node.part];
    auto input = firing.inputs.begin();
    for (const GraphEdge& edge : graph.edges()) {
      if (edge.to != firing.node) {
        continue;
      }
      if (*input != Firing::kInitial) {
        start = std::max(start, done.at(std::size_t(*input)) + edge.latency);
      }
      ++input;
    }
    done.push_back(start + node.cost);
    free[node.part] = done.back();
  }
  return done.back();
}

TEST(Onion, HasThePeriodOfItsFormula) {
  // max(te + td, tm, (te + td + tm + 2c) / (s + 1))
  for (const Costs& costs :
       {Costs{3, 7, 4, 0}, {3, 7, 4, 2}, {1, 9, 2, 5}, {6, 2, 5, 3}}) {
    const std::int64_t shell = costs.encoder + costs.decoder;
    const std::int64_t around = shell + costs.deep + 2 * costs.hop;
    for (int age = 0; age <= 3; ++age) {
      const MarkedGraph graph = onion(age, 1, 0, costs);
      const std::int64_t tokens = age + 1;
      const std::int64_t expected =
          std::max(std::max(shell, costs.deep) * tokens, around);
      const Ratio period = graph.steady_period();
      EXPECT_EQ(period.num * tokens, expected * period.den);
      // The same turns one by one: 60 steps are whole rounds of the tokens.
      const std::int64_t more = duration(graph, 120) - duration(graph, 60);
      EXPECT_EQ(more * tokens, 60 * expected);
    }
  }
}

/// Of 2 to 5 parts: what goes inward and the skips are of their own step, what
/// comes back over a cut has its age.
TEST(Onion, OfSeveralPartsHasTheAgesOfItsEdges) {
  constexpr int kSteps = 23;
  for (int parts = 2; parts <= 5; ++parts) {
    const int segments = 2 * parts - 1;
    for (const int warmup : {1, 4}) {
      MethodOptions options = stale_onion(parts, 1, warmup, 2);
      for (int cut = 0; cut + 1 < parts; ++cut) {
        options.ages.push_back(cut % 3);
      }
      const MarkedGraph graph = make_stale_graph(options);
      const auto firings = graph.firings(kSteps);
      const auto read = [&](const Firing& firing, std::size_t input) {
        return firings.at(static_cast<std::size_t>(firing.inputs.at(input)));
      };
      for (const Firing& firing : firings) {
        const int k = firing.step;
        EXPECT_EQ(firing.timestep_call, k);
        if (firing.node == 0 || firing.node == segments) {
          continue;
        }
        EXPECT_EQ(read(firing, 0).node, firing.node - 1);
        if (firing.node < parts) {
          ASSERT_EQ(firing.inputs.size(), 1U);
          EXPECT_EQ(read(firing, 0).step, k);
          continue;
        }
        ASSERT_EQ(firing.inputs.size(), 2U);
        const int mirror = segments - 1 - firing.node;
        const bool is_fresh = k < warmup || k >= kSteps - 2;
        const int age =
            is_fresh ? 0 : options.ages[static_cast<std::size_t>(mirror)];
        EXPECT_EQ(read(firing, 0).step, std::max(0, k - age));
        EXPECT_EQ(read(firing, 1).node, mirror);
        EXPECT_EQ(read(firing, 1).step, k);
      }
    }
  }
}

TEST(Onion, HasLatentsOfItsAgesAfterARampAndFreshOnesAroundIt) {
  constexpr int kSteps = 30;
  for (int parts = 1; parts <= 5; ++parts) {
    for (const int warmup : {1, 2, 3, 9}) {
      const MarkedGraph graph =
          make_stale_graph(stale_onion(parts, 1, warmup, 3));
      const auto firings = graph.firings(kSteps);
      for (int step = 0; step < kSteps; ++step) {
        const int age = step - provenance(graph, firings, step).latents_call;
        const bool is_fresh = step < warmup || step >= kSteps - 3;
        EXPECT_EQ(age, is_fresh ? 0 : std::min(parts - 1, step - warmup + 1));
      }
    }
  }
}

TEST(Onion, OfSeveralPartsRunsAtTheirSpeedAtAgeOne) {
  for (int parts = 1; parts <= 5; ++parts) {
    const int unit = 2;  // a part has two segments
    const MarkedGraph stale = make_stale_graph(stale_onion(parts));
    EXPECT_EQ(stale.device_load(), (Ratio{unit, 1}));
    EXPECT_EQ(stale.steady_period(), (Ratio{unit, 1}));
    const MarkedGraph fresh = make_stale_graph(stale_onion(parts, 0));
    EXPECT_EQ(fresh.steady_period(), (Ratio{unit * parts, 1}));
    EXPECT_EQ(duration(stale, 120) - duration(stale, 60), 60 * unit);
    EXPECT_EQ(duration(fresh, 120) - duration(fresh, 60), 60 * unit * parts);
  }
}

/// A graph of unknown origin is held to the options that it came with.
TEST(Onion, RefusesATableWhoseSkipsLeaveHome) {
  const MethodOptions options = stale_onion(3);
  const GraphTable good = make_stale_graph(options).table();
  check_stale_graph(good, options, 9);
  const auto expect_refused = [&](const auto& change) {
    GraphTable table = good;
    change(table);
    EXPECT_THROW(check_stale_graph(table, options, 9), Error);
  };
  expect_refused([](GraphTable& t) { t.nodes[4].part = 1; });
  expect_refused(
      [](GraphTable& t) { t.edges[4].from = {0}; });  // its mirror: 1
  expect_refused([](GraphTable& t) { t.edges.erase(t.edges.begin() + 4); });
  expect_refused([](GraphTable& t) { std::swap(t.edges[3], t.edges[4]); });
  expect_refused([](GraphTable& t) { t.edges[3].from = {2, 1}; });
  MethodOptions chain = options;
  chain.cut = CutShape::chain;
  EXPECT_THROW(check_stale_graph(good, chain, 9), Error);
}

TEST(Onion, IsSequentialAtAgeZeroAndAtFullSpeedAtAgeOneWhenBalanced) {
  const Costs balanced{3, 7, 4, 0};
  EXPECT_EQ(onion(0, 1, 0, balanced).steady_period(), (Ratio{14, 1}));
  EXPECT_EQ(onion(1, 1, 0, balanced).steady_period(), (Ratio{7, 1}));
}

}  // namespace
}  // namespace troupe::samplers

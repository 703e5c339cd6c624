// An onion: the shell has the first and the last layers of the network on one
// worker, the deep layers are another's; the skips stay inside the shell.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "samplers/parallel/marked_graph.h"
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

/// What the deep part made may be `age` steps old; a skip may not.
MarkedGraph onion(int age, int warmup, int final_fresh = 0,
                  const Costs& costs = {}) {
  return MarkedGraph(
      {{{.name = "encoder", .part = 0, .segment = 0, .cost = costs.encoder},
        {.name = "deep", .part = 1, .segment = 1, .cost = costs.deep},
        {.name = "decoder", .part = 0, .segment = 2, .cost = costs.decoder},
        {.name = "step", .part = 0}},
       {{.from = {kStep}, .to = kEncoder, .lag = 1},
        {.from = {kEncoder}, .to = kDeep, .latency = costs.hop},
        {.from = {kDeep}, .to = kDecoder, .age = age, .latency = costs.hop},
        {.from = {kEncoder}, .to = kDecoder},
        {.from = {kStep}, .to = kStep, .lag = 1},
        {.from = {kDecoder}, .to = kStep}},
       warmup,
       final_fresh});
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

/// The last step of a run whose deep part has stopped before step `stopped`.
int last_step_without_deep(const std::vector<Firing>& firings, int stopped) {
  std::vector<bool> fired(firings.size());
  int last = -1;
  for (std::size_t i = 0; i < firings.size(); ++i) {
    const Firing& firing = firings[i];
    fired[i] = std::ranges::all_of(firing.inputs, [&](int input) {
      return input == Firing::kInitial ||
             fired[static_cast<std::size_t>(input)];
    });
    fired[i] = fired[i] && (firing.node != kDeep || firing.step < stopped);
    if (fired[i] && firing.node == kStep) {
      last = firing.step;
    }
  }
  return last;
}

TEST(Onion, RunsItsAgeAheadOfALateDeepPartAndThenWaits) {
  for (int age = 0; age <= 4; ++age) {
    const auto firings = onion(age, 1).firings(20);
    for (int stopped = 1; stopped + age <= 20; ++stopped) {
      EXPECT_EQ(last_step_without_deep(firings, stopped), stopped - 1 + age);
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

TEST(Onion, IsSequentialAtAgeZeroAndAtFullSpeedAtAgeOneWhenBalanced) {
  const Costs balanced{3, 7, 4, 0};
  EXPECT_EQ(onion(0, 1, 0, balanced).steady_period(), (Ratio{14, 1}));
  EXPECT_EQ(onion(1, 1, 0, balanced).steady_period(), (Ratio{7, 1}));
}

}  // namespace
}  // namespace troupe::samplers

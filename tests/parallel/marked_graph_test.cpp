#include "samplers/parallel/marked_graph.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "kernels/core/error.h"
#include "tests/parallel/provenance.h"

namespace troupe::samplers {
namespace {

MethodOptions stale(int segments, int stride, int warmup) {
  MethodOptions options;
  options.kind = MethodKind::stale;
  options.num_segments = segments;
  options.stride = stride;
  options.warmup_steps = warmup;
  return options;
}

int latent_age(const MarkedGraph& graph, const std::vector<Firing>& firings,
               int step) {
  return step - provenance(graph, firings, step).latents_call;
}

TEST(MarkedGraph, WarmUpStepsReadTheirOwnStepOnly) {
  for (const int stride : {1, 2}) {
    const MarkedGraph graph = make_stale_graph(stale(4, stride, 5));
    const auto firings = graph.firings(20);
    for (int step = 0; step < 5; ++step) {
      const Provenance trace = provenance(graph, firings, step);
      EXPECT_EQ(trace.latents_call, step);
      for (const TraceEntry& entry : trace.segments) {
        EXPECT_EQ(entry.step, step);
        EXPECT_EQ(entry.timestep_call, step);
      }
    }
  }
}

TEST(MarkedGraph, StrideOneHasLatentsOfAgeSegmentsMinusOneAfterARamp) {
  for (int segments = 1; segments <= 6; ++segments) {
    for (const int warmup : {1, 2, 3, 9}) {
      const MarkedGraph graph = make_stale_graph(stale(segments, 1, warmup));
      const auto firings = graph.firings(30);
      for (int step = warmup; step < 30; ++step) {
        // Warm-up firings were fresh: the age grows by one a step from there.
        const int ramp = step - warmup + 1;
        EXPECT_EQ(latent_age(graph, firings, step),
                  std::min(segments - 1, ramp));
      }
    }
  }
}

TEST(MarkedGraph, StrideOneFeedsEverySegmentItsOwnTimestep) {
  const MarkedGraph graph = make_stale_graph(stale(4, 1, 1));
  const auto firings = graph.firings(30);
  const Provenance trace = provenance(graph, firings, 20);
  const std::vector<TraceEntry> expected = {
      {3, 20, 20}, {2, 19, 19}, {1, 18, 18}, {0, 17, 17}};
  EXPECT_EQ(trace.segments, expected);
}

TEST(MarkedGraph, StrideTwoHasAsyncDiffsTwoAges) {
  for (int segments = 1; segments <= 5; ++segments) {
    for (const int warmup : {1, 2, 3, 4}) {
      const MarkedGraph graph = make_stale_graph(stale(segments, 2, warmup));
      const auto firings = graph.firings(40);
      for (int step = warmup + 2 * segments; step < 40; ++step) {
        const int odd = (step - warmup) % 2;
        EXPECT_EQ(latent_age(graph, firings, step), 2 * (segments - 1) + odd);
      }
    }
  }
}

TEST(MarkedGraph, StrideTwoFeedsAsyncDiffsTimesteps) {
  const MarkedGraph graph = make_stale_graph(stale(3, 2, 1));
  const auto firings = graph.firings(40);
  // Step 21 is at an even offset: its own executor with its own timestep, over
  // segments that got the timestep after theirs.
  const std::vector<TraceEntry> even = {{2, 21, 21}, {1, 19, 20}, {0, 17, 18}};
  EXPECT_EQ(provenance(graph, firings, 21).segments, even);
  const std::vector<TraceEntry> odd = {{3, 22, 22}, {1, 19, 20}, {0, 17, 18}};
  EXPECT_EQ(provenance(graph, firings, 22).segments, odd);
}

TEST(MarkedGraph, AnyWarmUpParityGivesEveryStepAnOutputOfItsOwn) {
  for (const int warmup : {1, 2, 3, 4, 5}) {
    const MarkedGraph graph = make_stale_graph(stale(3, 2, warmup));
    const auto firings = graph.firings(20);
    std::set<int> outputs;
    for (const Firing& firing : firings) {
      if (graph.nodes()[static_cast<std::size_t>(firing.node)].segment < 0) {
        EXPECT_TRUE(outputs.insert(firing.inputs.back()).second);
      }
    }
    EXPECT_EQ(outputs.size(), 20U);
  }
}

TEST(MarkedGraph, FinalFreshStepsReadTheirOwnStepOnly) {
  for (const int stride : {1, 2}) {
    for (const int fresh : {1, 2, 3}) {
      MethodOptions options = stale(3, stride, 2);
      options.final_fresh_steps = fresh;
      const MarkedGraph graph = make_stale_graph(options);
      const auto firings = graph.firings(17);
      for (int step = 17 - fresh; step < 17; ++step) {
        EXPECT_EQ(latent_age(graph, firings, step), 0);
      }
      EXPECT_GT(latent_age(graph, firings, 16 - fresh), 0);
    }
  }
}

TEST(MarkedGraph, EveryFiringButTheLastIsRead) {
  for (const int stride : {1, 2}) {
    const auto firings = make_stale_graph(stale(4, stride, 3)).firings(23);
    std::set<int> read;
    for (const Firing& firing : firings) {
      read.insert(firing.inputs.begin(), firing.inputs.end());
    }
    for (int i = 0; i + 1 < static_cast<int>(firings.size()); ++i) {
      EXPECT_TRUE(read.contains(i));
    }
  }
}

RC_GTEST_PROP(MarkedGraph, AgesAreExactlyWhatTheEdgesSay, ()) {
  const int segments = *rc::gen::inRange(1, 6);
  MethodOptions options = stale(segments, 1, *rc::gen::inRange(0, 8));
  options.ages = *rc::gen::container<std::vector<int>>(
      static_cast<std::size_t>(segments - 1), rc::gen::inRange(0, 4));
  options.final_fresh_steps = *rc::gen::inRange(0, 5);
  const int steps = *rc::gen::inRange(1, 25);
  const MarkedGraph graph = make_stale_graph(options);
  const auto firings = graph.firings(steps);
  const int warmup = std::max(1, options.warmup_steps);
  for (const Firing& firing : firings) {
    const int segment =
        graph.nodes()[static_cast<std::size_t>(firing.node)].segment;
    if (segment < 1) {
      continue;
    }
    const bool fresh = firing.step < warmup ||
                       firing.step >= steps - options.final_fresh_steps;
    const int age =
        fresh ? 0 : options.ages[static_cast<std::size_t>(segment - 1)];
    const Firing& read =
        firings[static_cast<std::size_t>(firing.inputs.front())];
    RC_ASSERT(read.step == std::max(0, firing.step - age));
    RC_ASSERT(read.node == firing.node - 1);
  }
}

TEST(SteadyPeriod, OfAChainIsTheLargerOfItsSlowestStageAndItsLatencyPerToken) {
  // max(max tᵢ, (T1 + N c) / (s + 1)) for N stages, hop c, s extra tokens.
  for (const std::vector<std::int64_t>& costs :
       {std::vector<std::int64_t>{5, 5, 5}, {9, 1, 1}, {2, 7, 3}}) {
    for (int extra = 0; extra <= 2; ++extra) {
      for (const std::int64_t hop : {0, 4}) {
        std::vector<GraphNode> nodes;
        std::vector<GraphEdge> edges;
        std::int64_t total = 0;
        for (int i = 0; i < 3; ++i) {
          const std::int64_t cost = costs[static_cast<std::size_t>(i)];
          nodes.push_back({.name = "s", .part = i, .segment = i, .cost = cost});
          total += cost;
        }
        nodes.push_back({.name = "step", .part = 3});
        edges.push_back({.from = {3}, .to = 0, .lag = 1, .latency = hop});
        edges.push_back(
            {.from = {0}, .to = 1, .age = extra > 0 ? 1 : 0, .latency = hop});
        edges.push_back(
            {.from = {1}, .to = 2, .age = extra > 1 ? 1 : 0, .latency = hop});
        edges.push_back({.from = {3}, .to = 3, .lag = 1});
        edges.push_back({.from = {2}, .to = 3});
        const MarkedGraph graph({nodes, edges, 1, 0});
        const std::int64_t slowest =
            *std::max_element(costs.begin(), costs.end());
        const std::int64_t around = total + 3 * hop;
        const Ratio period = graph.steady_period();
        if (slowest * (extra + 1) >= around) {
          EXPECT_EQ(period, (Ratio{slowest, 1}));
        } else {
          EXPECT_EQ(period.num * (extra + 1), around * period.den);
        }
      }
    }
  }
}

TEST(SteadyPeriod, OfAsyncDiffIsOneSegmentPerStrideSteps) {
  for (int segments = 2; segments <= 5; ++segments) {
    EXPECT_EQ(make_stale_graph(stale(segments, 1, 1)).steady_period(),
              (Ratio{1, 1}));
    EXPECT_EQ(make_stale_graph(stale(segments, 2, 1)).steady_period(),
              (Ratio{1, 2}));
    MethodOptions fresh = stale(segments, 1, 1);
    fresh.age = 0;
    EXPECT_EQ(make_stale_graph(fresh).steady_period(), (Ratio{segments, 1}));
  }
}

TEST(SteadyPeriod, CountsNodesThatShareAPart) {
  const MarkedGraph graph({{{.name = "a", .part = 0, .cost = 3},
                            {.name = "b", .part = 0, .cost = 4},
                            {.name = "step", .part = 1}},
                           {{.from = {2}, .to = 0, .lag = 1},
                            {.from = {0}, .to = 1, .age = 3},
                            {.from = {1}, .to = 2},
                            {.from = {2}, .to = 2, .lag = 1}},
                           1,
                           0});
  EXPECT_EQ(graph.device_load(), (Ratio{7, 1}));
  EXPECT_EQ(graph.cycle_ratio(), (Ratio{7, 4}));
  EXPECT_EQ(graph.steady_period(), (Ratio{7, 1}));
}

TEST(SteadyPeriod, RefusesACycleWithoutTokens) {
  const MarkedGraph graph(
      {{{.name = "a", .cost = 1}, {.name = "step", .cost = 1}},
       {{.from = {1}, .to = 0}, {.from = {0}, .to = 1}},
       1,
       0});
  EXPECT_THROW((void)graph.cycle_ratio(), Error);
}

}  // namespace
}  // namespace troupe::samplers

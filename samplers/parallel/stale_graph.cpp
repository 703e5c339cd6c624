#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "samplers/parallel/check_range.h"
#include "samplers/parallel/marked_graph.h"

namespace troupe::samplers {
namespace {

/// Of every cut. Checks the other numbers too.
std::vector<int> checked_ages(const MethodOptions& options) {
  check_segments(options);
  check_range("stride", options.stride, 1, 2, "counts steps per round");
  const auto cuts = static_cast<std::size_t>(options.num_segments - 1);
  std::vector<int> ages = options.ages;
  if (ages.empty()) {
    ages.assign(cuts, options.age);
  }
  if (ages.size() != cuts) {
    throw Error(Errc::invalid_argument, "ages",
                "one age per cut: got " + std::to_string(ages.size()) +
                    ", expected " + std::to_string(cuts) + " for " +
                    std::to_string(options.num_segments) + " segments");
  }
  for (const int age : ages) {
    if (age < 0) {
      throw Error(Errc::invalid_argument, "ages",
                  "an age counts steps: got " + std::to_string(age) +
                      ", expected 0 or more");
    }
  }
  return ages;
}

}  // namespace

MarkedGraph make_stale_graph(const MethodOptions& options) {
  const std::vector<int> ages = checked_ages(options);
  if (options.graph != nullptr) {
    return MarkedGraph(*options.graph);
  }
  const int segments = options.num_segments;
  const bool twice = options.stride == 2;
  const int last = segments - 1;
  const int solver = twice ? segments + 1 : segments;

  std::vector<GraphNode> nodes;
  std::vector<GraphEdge> edges;
  for (int i = 0; i < segments; ++i) {
    nodes.push_back({.name = "segment " + std::to_string(i),
                     .part = i,
                     .segment = i,
                     .cost = 1,
                     .stride = options.stride,
                     .timestep_offset = twice && i < last ? 1 : 0});
    if (i == 0) {
      edges.push_back({.from = {solver}, .to = 0, .lag = 1});
    } else {
      edges.push_back({.from = {i - 1},
                       .to = i,
                       .age = ages[static_cast<std::size_t>(i - 1)]});
    }
  }
  std::vector<int> outputs = {last};
  if (twice) {
    nodes.push_back({.name = "segment " + std::to_string(last) + " again",
                     .part = segments,
                     .segment = last,
                     .cost = 1,
                     .stride = 2,
                     .phase = 1,
                     .fresh = false});
    GraphEdge input = edges.back();
    input.to = segments;
    ++input.age;
    edges.push_back(std::move(input));
    outputs.push_back(segments);
  }
  nodes.push_back({.name = "step"});
  edges.push_back({.from = {solver}, .to = solver, .lag = 1});
  edges.push_back({.from = std::move(outputs), .to = solver});
  return MarkedGraph({std::move(nodes), std::move(edges), options.warmup_steps,
                      options.final_fresh_steps});
}

namespace {

/// Of a run: a turn takes some 200 bytes.
constexpr std::int64_t kMostTurns = 1 << 19;
constexpr int kMostNumber = 1 << 20;
/// A turn looks back so many steps, at so many nodes, for what it reads.
constexpr int kMostStride = 8;
constexpr std::size_t kMostReadNodes = 8;

[[noreturn]] void refuse_graph(const std::string& what) {
  throw Error(Errc::invalid_argument, "graph", what);
}

std::string numbered(const char* what, std::size_t index) {
  return std::string(what) + " " + std::to_string(index);
}

void check_nodes(const GraphTable& table, const MethodOptions& options) {
  for (std::size_t n = 0; n < table.nodes.size(); ++n) {
    const GraphNode& node = table.nodes[n];
    const bool is_last = n + 1 == table.nodes.size();
    const bool is_step = node.is_step();
    if (is_step != is_last || node.segment < -1 ||
        node.segment >= options.num_segments) {
      refuse_graph(numbered("node", n) + ": got segment " +
                   std::to_string(node.segment) +
                   ", expected a segment of the network, and -1 (the solver "
                   "step) for the last node alone");
    }
    if (node.part < 0 || node.part >= num_parts(options) || node.stride < 1 ||
        node.stride > kMostStride || node.phase < 0 ||
        node.phase >= node.stride || node.timestep_offset < 0 ||
        node.timestep_offset > kMostNumber || node.cost < 0 ||
        node.cost > kMostNumber) {
      refuse_graph(numbered("node", n) + ": a number is out of range");
    }
    // Each step begins with the latents that the solver made in the step
    // before.
    if (is_step && (node.stride != 1 || !node.fresh)) {
      refuse_graph("the solver step does not fire for every step");
    }
  }
}

/// Whether `from` makes what `to` reads over an edge of this lag.
bool fits(const GraphNode& from, const GraphNode& to, int lag, int segments) {
  if (lag == 1) {  // latents of the step before
    return from.is_step() && to.segment <= 0;
  }
  return to.is_step() ? from.segment == segments - 1
                      : !from.is_step() && from.segment + 1 == to.segment;
}

void check_edge(const GraphTable& table, const MethodOptions& options,
                std::size_t index) {
  const GraphEdge& edge = table.edges[index];
  const std::string name = numbered("edge", index);
  const auto count = static_cast<int>(table.nodes.size());
  if (edge.to < 0 || edge.to >= count || edge.lag < 0 || edge.lag > 1 ||
      edge.age < 0 || edge.age > kMostNumber || edge.latency < 0 ||
      edge.latency > kMostNumber || edge.from.empty() ||
      edge.from.size() > kMostReadNodes) {
    refuse_graph(name + ": a number is out of range");
  }
  bool is_always_made = edge.lag == 1;
  for (const int from : edge.from) {
    if (from < 0 || from >= count) {
      refuse_graph(name + " reads node " + std::to_string(from) +
                   ", which does not exist");
    }
    const GraphNode& node = table.nodes[static_cast<std::size_t>(from)];
    if (edge.lag == 0 && from >= edge.to) {
      refuse_graph(name + " closes a cycle: node " + std::to_string(edge.to) +
                   " reads node " + std::to_string(from) +
                   " of the same step, which fires after it");
    }
    if (!fits(node, table.nodes[static_cast<std::size_t>(edge.to)], edge.lag,
              options.num_segments)) {
      refuse_graph(name + ": node " + std::to_string(from) +
                   " does not make what node " + std::to_string(edge.to) +
                   " reads");
    }
    if (edge.age != 0 && node.is_step() &&
        table.nodes[static_cast<std::size_t>(edge.to)].is_step()) {
      refuse_graph(name +
                   ": the solver goes on from the step before: got age " +
                   std::to_string(edge.age));
    }
    is_always_made = is_always_made || node.fresh;
  }
  if (!is_always_made) {
    refuse_graph(name + ": its slot is never made in the first step");
  }
}

/// A segment reads one thing; the solver its own state, then a model output.
void check_inputs(const GraphTable& table) {
  std::vector<std::vector<int>> lags(table.nodes.size());
  for (const GraphEdge& edge : table.edges) {
    lags[static_cast<std::size_t>(edge.to)].push_back(edge.lag);
  }
  for (std::size_t n = 0; n < lags.size(); ++n) {
    const GraphNode& node = table.nodes[n];
    const std::vector<int> wanted = node.is_step()      ? std::vector{1, 0}
                                    : node.segment == 0 ? std::vector{1}
                                                        : std::vector{0};
    if (lags[n] != wanted) {
      refuse_graph(numbered("node", n) + " reads " +
                   std::to_string(lags[n].size()) + " slots, expected " +
                   std::to_string(wanted.size()) +
                   (node.is_step() ? ": the state, then a model output" : ""));
    }
  }
}

/// The execution class and the recipe are made from the options. They would lie
/// if the graph were stale where the options are exact, or had other fresh
/// steps.
void check_options_of(const GraphTable& table, const MethodOptions& options) {
  const bool is_stale =
      std::ranges::any_of(table.edges,
                          [](const GraphEdge& e) { return e.age != 0; }) ||
      std::ranges::any_of(table.nodes, [](const GraphNode& n) {
        return n.stride != 1 || n.timestep_offset != 0;
      });
  if ((is_stale && !options.kind->approximates(options)) ||
      table.warmup_steps != std::max(1, options.warmup_steps) ||
      table.final_fresh_steps != options.final_fresh_steps) {
    refuse_graph("it is not that of the method's options");
  }
}

}  // namespace

void check_stale_graph(const GraphTable& table, const MethodOptions& options,
                       int num_calls) {
  (void)checked_ages(options);
  check_options_of(table, options);
  if (table.nodes.empty()) {
    refuse_graph("it has no nodes");
  }
  if (static_cast<std::int64_t>(table.nodes.size()) * num_calls > kMostTurns) {
    refuse_graph("too large: got " + std::to_string(table.nodes.size()) +
                 " nodes for " + std::to_string(num_calls) +
                 " model calls, expected at most " +
                 std::to_string(kMostTurns) + " turns");
  }
  check_nodes(table, options);
  for (std::size_t i = 0; i < table.edges.size(); ++i) {
    check_edge(table, options, i);
  }
  check_inputs(table);
}

}  // namespace troupe::samplers

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/text.h"
#include "samplers/parallel/check_range.h"
#include "samplers/parallel/marked_graph.h"

namespace troupe::samplers {
namespace {

/// Of every cut. Checks the other numbers too.
std::vector<int> checked_ages(const MethodOptions& options) {
  check_segments(options);
  check_range("stride", options.stride, 1, 2, "counts steps per round");
  require(options.cut == CutShape::chain || options.stride == 1,
          Errc::invalid_argument, "stride",
          "an onion has one executor for each part: got 2, expected 1");
  require(options.stale_at == StaleAt::cuts || options.stride == 1,
          Errc::invalid_argument, "stride",
          "drafts are made for every step: got 2, expected 1",
          "use --stale-at cuts for two steps per round");
  const auto cuts = static_cast<std::size_t>(options.num_segments - 1);
  std::vector<int> ages = options.ages;
  if (ages.empty()) {
    ages.assign(cuts, options.age);
  }
  if (ages.size() != cuts) {
    throw Error(Errc::invalid_argument, "ages",
                "one age per cut: got " + std::to_string(ages.size()) +
                    ", expected " + std::to_string(cuts) + " for " +
                    counted(options.num_segments, "part"));
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

namespace {

/// A row of segments. With stride 2 the last has a second executor.
GraphTable chain_table(const MethodOptions& options,
                       const std::vector<int>& ages) {
  const int segments = options.num_segments;
  const bool twice = options.stride == 2;
  const int last = segments - 1;
  const int solver = twice ? segments + 1 : segments;

  GraphTable table;
  for (int i = 0; i < segments; ++i) {
    table.nodes.push_back({.name = "segment " + std::to_string(i),
                           .part = i,
                           .segment = i,
                           .cost = 1,
                           .stride = options.stride,
                           .timestep_offset = twice && i < last ? 1 : 0});
    if (i == 0) {
      table.edges.push_back({.from = {solver}, .to = 0, .lag = 1});
    } else {
      table.edges.push_back({.from = {i - 1},
                             .to = i,
                             .age = ages[static_cast<std::size_t>(i - 1)]});
    }
  }
  std::vector<int> outputs = {last};
  if (twice) {
    table.nodes.push_back({.name = "segment " + std::to_string(last) + " again",
                           .part = segments,
                           .segment = last,
                           .cost = 1,
                           .stride = 2,
                           .phase = 1,
                           .fresh = false});
    GraphEdge input = table.edges.back();
    input.to = segments;
    ++input.age;
    table.edges.push_back(std::move(input));
    outputs.push_back(segments);
  }
  table.nodes.push_back({.name = "step"});
  table.edges.push_back({.from = {solver}, .to = solver, .lag = 1});
  table.edges.push_back({.from = std::move(outputs), .to = solver});
  return table;
}

/// Inward and outward. What comes back over a cut may be stale; what goes
/// inward and the skips of a part are of its own step.
GraphTable onion_table(const MethodOptions& options,
                       const std::vector<int>& ages) {
  const int segments = num_segments(options);
  const int core = options.num_segments - 1;
  GraphTable table;
  for (int i = 0; i < segments; ++i) {
    const int part = part_of_segment(options, i);
    table.nodes.push_back({.name = "segment " + std::to_string(i),
                           .part = part,
                           .segment = i,
                           .cost = i == core ? 2 : 1});
    if (i == 0) {
      table.edges.push_back({.from = {segments}, .to = 0, .lag = 1});
      continue;
    }
    table.edges.push_back({.from = {i - 1}, .to = i});
    if (takes_skips(options, i)) {
      table.edges.back().age = ages[static_cast<std::size_t>(part)];
      table.edges.push_back({.from = {part}, .to = i});
    }
  }
  table.nodes.push_back({.name = "step"});
  table.edges.push_back({.from = {segments}, .to = segments, .lag = 1});
  table.edges.push_back({.from = {segments - 1}, .to = segments});
  return table;
}

}  // namespace

MarkedGraph make_stale_graph(const MethodOptions& options) {
  std::vector<int> ages = checked_ages(options);
  if (options.graph != nullptr) {
    return MarkedGraph(*options.graph);
  }
  const int all_ages = std::accumulate(ages.begin(), ages.end(), 0);
  const bool is_at_latents = options.stale_at == StaleAt::latents;
  if (is_at_latents) {
    ages.assign(ages.size(), 0);
  }
  GraphTable table = options.cut == CutShape::onion
                         ? onion_table(options, ages)
                         : chain_table(options, ages);
  if (is_at_latents) {
    table.edges.front().age = all_ages;  // what the first segment reads
  }
  table.warmup_steps = options.warmup_steps;
  table.final_fresh_steps = options.final_fresh_steps;
  return MarkedGraph(std::move(table));
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
        node.segment >= num_segments(options)) {
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

const GraphNode& of_node(const GraphTable& table, int node) {
  return table.nodes[static_cast<std::size_t>(node)];
}

/// Whether `from` makes what `to` reads over an edge.
bool fits(const GraphNode& from, const GraphNode& to, int lag,
          const MethodOptions& options) {
  const int segments = num_segments(options);
  if (lag == 1) {  // latents of the step before
    return from.is_step() && to.segment <= 0;
  }
  if (to.is_step() || from.is_step()) {
    return to.is_step() && from.segment == segments - 1;
  }
  const bool is_mirror = takes_skips(options, to.segment) &&
                         from.segment + to.segment + 1 == segments;
  return from.segment + 1 == to.segment || (is_mirror && from.part == to.part);
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
    if (!fits(node, of_node(table, edge.to), edge.lag, options) ||
        node.segment != of_node(table, edge.from.front()).segment) {
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

/// A segment reads one thing, and then the skips that it takes; the solver its
/// own state, then a model output.
void check_inputs(const GraphTable& table, const MethodOptions& options) {
  constexpr int kSkips = 2;  // beside the lags
  std::vector<std::vector<int>> inputs(table.nodes.size());
  for (const GraphEdge& edge : table.edges) {
    inputs[static_cast<std::size_t>(edge.to)].push_back(
        reads_skips(table, edge) ? kSkips : edge.lag);
  }
  for (std::size_t n = 0; n < inputs.size(); ++n) {
    const GraphNode& node = table.nodes[n];
    const std::vector<int> wanted = node.is_step()      ? std::vector{1, 0}
                                    : node.segment == 0 ? std::vector{1}
                                    : takes_skips(options, node.segment)
                                        ? std::vector{0, kSkips}
                                        : std::vector{0};
    if (inputs[n] != wanted) {
      refuse_graph(numbered("node", n) + " reads " +
                   std::to_string(inputs[n].size()) + " slots, expected " +
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
  check_inputs(table, options);
}

}  // namespace troupe::samplers

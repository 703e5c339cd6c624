#include "samplers/parallel/marked_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "kernels/core/error.h"

namespace troupe::samplers {
namespace {

constexpr int kNone = -2;

int floor_mod(int value, int modulus) {
  return (value % modulus + modulus) % modulus;
}

Ratio reduced(std::int64_t num, std::int64_t den) {
  const std::int64_t common = std::max<std::int64_t>(1, std::gcd(num, den));
  return {num / common, den / common};
}

}  // namespace

bool reads_skips(const GraphTable& table, const GraphEdge& edge) {
  const auto segment_of = [&table](int node) {
    return table.nodes[static_cast<std::size_t>(node)].segment;
  };
  return edge.lag == 0 && segment_of(edge.to) >= 0 &&
         segment_of(edge.from.front()) + 1 != segment_of(edge.to);
}

MarkedGraph::MarkedGraph(GraphTable table)
    : table_(std::move(table)), edges_into_(table_.nodes.size()) {
  // The first step has nothing older to read, so it is always fresh.
  table_.warmup_steps = std::max(1, table_.warmup_steps);
  for (std::size_t i = 0; i < edges().size(); ++i) {
    edges_into_[static_cast<std::size_t>(edges()[i].to)].push_back(
        static_cast<int>(i));
  }
}

bool MarkedGraph::is_stale(int step, int num_steps) const {
  return step >= table_.warmup_steps &&
         step < num_steps - table_.final_fresh_steps;
}

bool MarkedGraph::fires(int node, int step, int num_steps) const {
  const GraphNode& at = nodes()[static_cast<std::size_t>(node)];
  if (step < 0 || step >= num_steps) {
    return false;
  }
  if (!is_stale(step, num_steps)) {
    return at.fresh;
  }
  return (step - table_.warmup_steps) % at.stride == at.phase;
}

int MarkedGraph::read_by(const GraphEdge& edge, int step,
                         const std::vector<std::vector<int>>& index) const {
  const auto firing_at = [&](int at) {
    for (const int node : edge.from) {
      const int found =
          index[static_cast<std::size_t>(node)][static_cast<std::size_t>(at)];
      if (found != kNone) {
        return found;
      }
    }
    return kNone;
  };
  const int num_steps = static_cast<int>(index.front().size());
  const int newest =
      step - edge.lag - (is_stale(step, num_steps) ? edge.age : 0);
  for (int at = newest; at >= 0; --at) {
    if (const int found = firing_at(at); found != kNone) {
      return found;
    }
  }
  if (edge.lag > 0) {
    return Firing::kInitial;
  }
  for (int at = std::max(0, newest + 1); at <= step; ++at) {
    if (const int found = firing_at(at); found != kNone) {
      return found;
    }
  }
  throw Error(Errc::internal, "marked graph",
              "a node has nothing to read at step " + std::to_string(step));
}

std::vector<Firing> MarkedGraph::firings(int num_steps) const {
  std::vector<std::vector<int>> index(
      nodes().size(),
      std::vector<int>(static_cast<std::size_t>(num_steps), kNone));
  std::vector<Firing> all;
  for (int step = 0; step < num_steps; ++step) {
    for (int node = 0; node < static_cast<int>(nodes().size()); ++node) {
      if (!fires(node, step, num_steps)) {
        continue;
      }
      const auto n = static_cast<std::size_t>(node);
      const int offset =
          is_stale(step, num_steps) ? nodes()[n].timestep_offset : 0;
      Firing firing{.node = node,
                    .step = step,
                    .timestep_call = std::min(step + offset, num_steps - 1),
                    .inputs = {}};
      firing.inputs.reserve(edges_into_[n].size());
      for (const int edge : edges_into_[n]) {
        firing.inputs.push_back(
            read_by(edges()[static_cast<std::size_t>(edge)], step, index));
      }
      index[n][static_cast<std::size_t>(step)] = static_cast<int>(all.size());
      all.push_back(std::move(firing));
    }
  }
  // Turns without readers do not run.
  std::vector<int> renumbered(all.size(), kNone);
  renumbered.back() = 0;
  for (std::size_t i = all.size(); i-- > 0;) {
    if (renumbered[i] != kNone) {
      for (const int input : all[i].inputs) {
        if (input != Firing::kInitial) {
          renumbered[static_cast<std::size_t>(input)] = 0;
        }
      }
    }
  }
  std::vector<Firing> needed;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (renumbered[i] == kNone) {
      continue;
    }
    for (int& input : all[i].inputs) {
      if (input != Firing::kInitial) {
        input = renumbered[static_cast<std::size_t>(input)];
      }
    }
    renumbered[i] = static_cast<int>(needed.size());
    needed.push_back(std::move(all[i]));
  }
  return needed;
}

int MarkedGraph::period() const {
  int steps = 1;
  for (const GraphNode& node : nodes()) {
    steps = std::lcm(steps, node.stride);
  }
  return steps;
}

Ratio MarkedGraph::device_load() const {
  const int steps = period();
  std::map<int, std::int64_t> load;
  for (const GraphNode& node : nodes()) {
    load[node.part] += node.cost * (steps / node.stride);
  }
  std::int64_t largest = 0;
  for (const auto& [part, cost] : load) {
    largest = std::max(largest, cost);
  }
  return reduced(largest, steps);
}

std::vector<MarkedGraph::Arc> MarkedGraph::unrolled() const {
  const int steps = period();
  const auto fires_at = [&](int node, int step) {
    const GraphNode& at = nodes()[static_cast<std::size_t>(node)];
    return floor_mod(step, at.stride) == at.phase;
  };
  std::vector<Arc> arcs;
  for (const GraphEdge& edge : edges()) {
    for (int to = 0; to < steps; ++to) {
      if (!fires_at(edge.to, to)) {
        continue;
      }
      for (int at = to - edge.lag - edge.age;
           at > to - edge.lag - edge.age - steps; --at) {
        const auto from =
            std::find_if(edge.from.begin(), edge.from.end(),
                         [&](int node) { return fires_at(node, at); });
        if (from == edge.from.end()) {
          continue;
        }
        const int residue = floor_mod(at, steps);
        arcs.push_back(
            {.from = static_cast<std::size_t>(*from * steps + residue),
             .to = static_cast<std::size_t>(edge.to * steps + to),
             .weight =
                 nodes()[static_cast<std::size_t>(*from)].cost + edge.latency,
             .tokens = (residue - at) / steps});
        break;
      }
    }
  }
  return arcs;
}

// Begins with ratio 0 and takes the ratio of a better cycle until no cycle is
// better (Bellman-Ford on weight · den − tokens · num). The ratio grows at each
// turn and the cycles are finitely many, so the search ends at the exact
// maximum.
Ratio MarkedGraph::cycle_ratio() const {
  const std::vector<Arc> arcs = unrolled();
  const int steps = period();
  const std::size_t size = nodes().size() * static_cast<std::size_t>(steps);
  Ratio best{0, 1};
  for (;;) {
    std::vector<std::int64_t> distance(size, 0);
    std::vector<const Arc*> parent(size, nullptr);
    const Arc* relaxed = nullptr;
    for (std::size_t round = 0; round <= size; ++round) {
      relaxed = nullptr;
      for (const Arc& arc : arcs) {
        const std::int64_t reach =
            distance[arc.from] + arc.weight * best.den - arc.tokens * best.num;
        if (reach > distance[arc.to]) {
          distance[arc.to] = reach;
          parent[arc.to] = &arc;
          relaxed = &arc;
        }
      }
    }
    if (relaxed == nullptr) {
      return reduced(best.num, best.den * steps);
    }
    std::size_t at = relaxed->to;
    for (std::size_t i = 0; i < size; ++i) {
      at = parent[at]->from;
    }
    Ratio cycle{0, 0};
    const std::size_t start = at;
    do {
      const Arc* arc = parent[at];
      cycle.num += arc->weight;
      cycle.den += arc->tokens;
      at = arc->from;
    } while (at != start);
    require(cycle.den > 0, Errc::internal, "marked graph",
            "a cycle without a token never fires");
    best = reduced(cycle.num, cycle.den);
  }
}

Ratio MarkedGraph::steady_period() const {
  const Ratio load = device_load();
  const Ratio cycle = cycle_ratio();
  return load.num * cycle.den < cycle.num * load.den ? cycle : load;
}

}  // namespace troupe::samplers

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "samplers/options.h"

namespace troupe::samplers {

/// A turn of a segment or of the solver. In stale steps it fires for the steps
/// k with (k − warm-up) mod stride = phase.
struct GraphNode {
  std::string name;
  int part = 0;           ///< logical worker
  int segment = -1;       ///< −1: the solver step
  std::int64_t cost = 0;  ///< in any unit of time
  int stride = 1;
  int phase = 0;
  int timestep_offset = 0;  ///< in stale steps: fed the timestep of k + offset
  bool fresh = true;        ///< fires in warm-up and final fresh steps

  [[nodiscard]] bool is_step() const { return segment < 0; }
};

/// An input of `to`: for step k it reads the newest firing, among the nodes of
/// `from`, for a step ≤ k − lag − age; where there is none, the oldest, or the
/// initial state if lag > 0. `age` is 0 in warm-up and final fresh steps.
struct GraphEdge {
  std::vector<int> from;
  int to = 0;
  int lag = 0;  ///< 1 for what the solver made in the step before
  int age = 0;
  std::int64_t latency = 0;  ///< of the hop, same unit as costs
};

/// A pipeline as plain values: the form in a job's record.
struct GraphTable {
  std::vector<GraphNode> nodes;  ///< the last one is the solver step
  std::vector<GraphEdge> edges;  ///< those into a node keep their order
  int warmup_steps = 1;
  int final_fresh_steps = 0;
};

/// Whether an edge hands over the skips that a segment of an onion kept for its
/// mirror, and not what it hands to the next segment.
[[nodiscard]] bool reads_skips(const GraphTable& table, const GraphEdge& edge);

/// A turn that really runs: a later firing reads the result, or the turn is the
/// last step.
struct Firing {
  static constexpr int kInitial = -1;  ///< as an input: the initial state

  int node = 0;
  int step = 0;             ///< model-call index it fires for
  int timestep_call = 0;    ///< whose timestep the network gets
  std::vector<int> inputs;  ///< one per edge into the node: index of a firing
};

/// An exact rational number, den > 0, in lowest terms.
struct Ratio {
  std::int64_t num = 0;
  std::int64_t den = 1;
  friend bool operator==(const Ratio&, const Ratio&) = default;
};

/// A pipeline over denoising steps as a marked graph: nodes with stride, edges
/// with age. Deterministic: which firing reads which is fixed by the graph, not
/// by time, so the run is a list of firings known beforehand.
/// Source: Commoner et al. 1971 (marked graphs); AsyncDiff, arXiv:2406.06911.
class MarkedGraph {
 public:
  explicit MarkedGraph(GraphTable table);

  [[nodiscard]] const GraphTable& table() const { return table_; }
  [[nodiscard]] const std::vector<GraphNode>& nodes() const {
    return table_.nodes;
  }
  [[nodiscard]] const std::vector<GraphEdge>& edges() const {
    return table_.edges;
  }
  [[nodiscard]] const GraphNode& node_of(const Firing& firing) const {
    return nodes()[static_cast<std::size_t>(firing.node)];
  }
  [[nodiscard]] bool fires(int node, int step, int num_steps) const;
  /// All firings of a run. A firing comes after its inputs; the final firing is
  /// the solver's last step.
  [[nodiscard]] std::vector<Firing> firings(int num_steps) const;

  /// Time per step in the steady state: the larger of the busiest part's load
  /// and the largest, over cycles, of latency ÷ tokens.
  [[nodiscard]] Ratio steady_period() const;
  [[nodiscard]] Ratio device_load() const;
  [[nodiscard]] Ratio cycle_ratio() const;

 private:
  struct Arc {  // one edge of the graph unrolled over one period
    std::size_t from, to;
    std::int64_t weight, tokens;
  };

  [[nodiscard]] bool is_stale(int step, int num_steps) const;
  [[nodiscard]] int read_by(const GraphEdge& edge, int step,
                            const std::vector<std::vector<int>>& index) const;
  [[nodiscard]] int period() const;
  [[nodiscard]] std::vector<Arc> unrolled() const;

  GraphTable table_;
  std::vector<std::vector<int>> edges_into_;
};

/// Checks a graph of unknown origin for a run of so many model calls with such
/// options: it has at most 2^19 turns, a turn reads only what earlier turns
/// make, and nothing is stale where the options are exact. Errors:
/// Errc::invalid_argument with the place "graph", or with the option's name.
void check_stale_graph(const GraphTable& table, const MethodOptions& options,
                       int num_calls);

/// The graph of a stale run: the one that `options` holds, else the segments,
/// the solver step, an age per cut. Stride 2 is AsyncDiff's: all segments fire
/// every second step with the timestep of the step after; the last has a second
/// executor (part num_segments) that fires for that step, one step staler,
/// while the first fires for its own. The phase follows the warm-up, so that
/// any warm-up is legal. In an onion the age is that of what comes back over a
/// cut; all else is of its own step. With StaleAt::latents the ages of all cuts
/// together are that of the latents which the first segment reads. Costs are
/// 1 for a segment, 2 for the core of an onion, and 0 for the solver step.
/// Errors: Errc::invalid_argument with the option's name.
[[nodiscard]] MarkedGraph make_stale_graph(const MethodOptions& options);

}  // namespace troupe::samplers

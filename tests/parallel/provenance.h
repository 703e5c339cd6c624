#pragma once

#include <algorithm>
#include <vector>

#include "kernels/core/error.h"
#include "samplers/parallel/marked_graph.h"

namespace troupe::samplers {

/// The inputs of one model output: a line of firings back to a state.
struct TraceEntry {
  int node = 0;
  int step = 0;
  int timestep_call = 0;
  friend bool operator==(const TraceEntry&, const TraceEntry&) = default;
};
struct Provenance {
  std::vector<TraceEntry> segments;  ///< last segment first
  int latents_call = 0;              ///< point whose latents went in
};

/// Traces the model output that the solver step for `step` consumed.
[[nodiscard]] inline Provenance provenance(const MarkedGraph& graph,
                                           const std::vector<Firing>& firings,
                                           int step) {
  const int solver = static_cast<int>(graph.nodes().size()) - 1;
  const auto found =
      std::find_if(firings.begin(), firings.end(), [&](const Firing& firing) {
        return firing.node == solver && firing.step == step;
      });
  require(found != firings.end(), Errc::invalid_argument, "provenance",
          "no solver step for this model call");
  Provenance trace;
  int at = found->inputs.back();
  while (at != Firing::kInitial &&
         firings[static_cast<std::size_t>(at)].node != solver) {
    const Firing& firing = firings[static_cast<std::size_t>(at)];
    trace.segments.push_back({firing.node, firing.step, firing.timestep_call});
    at = firing.inputs.front();
  }
  trace.latents_call = at == Firing::kInitial
                           ? 0
                           : firings[static_cast<std::size_t>(at)].step + 1;
  return trace;
}

}  // namespace troupe::samplers

#include "samplers/parallel/stale_reach.h"

#include <algorithm>

#include "samplers/parallel/firing_slots.h"
#include "samplers/parallel/method.h"

namespace troupe::samplers {

std::vector<Reach> reaches(const MarkedGraph& graph,
                           const std::vector<Firing>& firings, int num_calls) {
  std::vector<Reach> reach(firings.size() + 1, {.needed_by = num_calls});
  const auto of = [&reach](int index) -> Reach& {
    return reach[static_cast<std::size_t>(index + 1)];
  };
  const auto count = static_cast<int>(firings.size());
  for (int i = 0; i < count; ++i) {
    for (const int input : firings[static_cast<std::size_t>(i)].inputs) {
      const bool is_step =
          input != Firing::kInitial &&
          graph.node_of(firings[static_cast<std::size_t>(input)]).is_step();
      of(i).after = std::max(
          of(i).after, is_step ? firings[static_cast<std::size_t>(input)].step
                               : of(input).after);
    }
  }
  for (int i = count - 1; i >= 0; --i) {
    const Firing& firing = firings[static_cast<std::size_t>(i)];
    if (graph.node_of(firing).is_step()) {
      of(i).needed_by = firing.step;
    }
    for (const int input : firing.inputs) {
      of(input).needed_by = std::min(of(input).needed_by, of(i).needed_by);
    }
  }
  return reach;
}

int steps_of(int num_tasks, std::size_t num_firings, int num_calls) {
  const int per_step =
      std::max(static_cast<int>(num_firings) / std::max(num_calls, 1), 1);
  return (std::max(num_tasks, 0) + per_step - 1) / per_step;
}

/// A value is there, at most, from when the solver step that it needs may be
/// done until all steps are that its readers are needed by.
LiveValues stale_live(const MethodOptions& options, int num_calls,
                      int max_open) {
  const MarkedGraph graph = make_stale_graph(options);
  const std::vector<Firing> firings = graph.firings(num_calls);
  const FiringSlots slots(graph, firings, options);
  const std::vector<Reach> reach = reaches(graph, firings, num_calls);
  const int ahead = steps_of(max_open, firings.size(), num_calls);
  struct Life {
    int LiveValues::*kind = &LiveValues::states;
    int after = -1;
    int until = 0;  // so long it may be there
  };
  std::vector<Life> lives(slots.size());
  lives[kInitialSlot].until = reach.front().needed_by;
  for (std::size_t i = 0; i < firings.size(); ++i) {
    const GraphNode& node = graph.node_of(firings[i]);
    const Reach& its = reach[i + 1];
    auto kind = node.is_step() ? &LiveValues::states
                : node.segment + 1 == num_segments(options)
                    ? &LiveValues::outputs
                    : &LiveValues::boundaries;
    for (const Slot slot : slots.written_by(static_cast<int>(i))) {
      lives[slot] = {kind, its.after, its.needed_by};
      kind = &LiveValues::skips;
    }
    for (const Slot slot : slots.read_by(static_cast<int>(i))) {
      lives[slot].until = std::max(lives[slot].until, its.needed_by);
    }
  }
  lives.back().until = num_calls;  // the result stays
  // How the counts change when a step is complete, from step −1 on.
  std::vector<LiveValues> changes(static_cast<std::size_t>(num_calls) + 2);
  for (const Life& life : lives) {
    const int first = std::max(life.after - ahead, -1);
    ++(changes[static_cast<std::size_t>(first + 1)].*life.kind);
    --(changes[static_cast<std::size_t>(life.until + 1)].*life.kind);
  }
  LiveValues now;
  LiveValues most;
  for (const LiveValues& change : changes) {
    for (const auto kind : {&LiveValues::states, &LiveValues::outputs,
                            &LiveValues::boundaries, &LiveValues::skips}) {
      now.*kind += change.*kind;
      most.*kind = std::max(most.*kind, now.*kind);
    }
  }
  return most;
}

}  // namespace troupe::samplers

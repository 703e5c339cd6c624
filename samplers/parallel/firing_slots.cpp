#include "samplers/parallel/firing_slots.h"

namespace troupe::samplers {

FiringSlots::FiringSlots(const MarkedGraph& graph,
                         const std::vector<Firing>& firings,
                         const MethodOptions& options)
    : main_{kInitialSlot} {
  std::vector<std::vector<bool>> takes_skips(graph.nodes().size());
  for (const GraphEdge& edge : graph.edges()) {
    takes_skips[static_cast<std::size_t>(edge.to)].push_back(
        reads_skips(graph.table(), edge));
  }
  Slot next = kInitialSlot + 1;
  for (const Firing& firing : firings) {
    Slots& read = read_.emplace_back();
    const auto& skips = takes_skips[static_cast<std::size_t>(firing.node)];
    for (std::size_t i = 0; i < firing.inputs.size(); ++i) {
      read.push_back(main_of(firing.inputs[i]) + (skips[i] ? 1 : 0));
    }
    main_.push_back(next);
    const int segment = graph.node_of(firing).segment;
    next += segment >= 0 && keeps_skips(options, segment) ? 2 : 1;
  }
  main_.push_back(next);
}

Slots FiringSlots::written_by(int firing) const {
  Slots slots;
  for (Slot slot = main_of(firing); slot < main_of(firing + 1); ++slot) {
    slots.push_back(slot);
  }
  return slots;
}

}  // namespace troupe::samplers

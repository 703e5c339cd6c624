#pragma once

#include <vector>

#include "samplers/parallel/marked_graph.h"
#include "samplers/parallel/method.h"

namespace troupe::samplers {

/// Which slots the firings of a stale run write and read. They are numbered in
/// the order of the firings, behind that of the initial state.
class FiringSlots {
 public:
  FiringSlots(const MarkedGraph& graph, const std::vector<Firing>& firings,
              const MethodOptions& options);

  /// What the firing hands on; for Firing::kInitial the initial state's.
  [[nodiscard]] Slot main_of(int firing) const {
    return main_[static_cast<std::size_t>(firing + 1)];
  }
  /// That, and then the skips if the firing keeps some.
  [[nodiscard]] Slots written_by(int firing) const;
  /// The slots of the firing's inputs, one per input.
  [[nodiscard]] const Slots& read_by(int firing) const {
    return read_[static_cast<std::size_t>(firing)];
  }
  /// Of all slots, with the initial state's.
  [[nodiscard]] std::size_t size() const { return main_.back(); }

 private:
  std::vector<Slot> main_;   ///< the initial state's, firings', and the end
  std::vector<Slots> read_;  ///< by firing
};

}  // namespace troupe::samplers

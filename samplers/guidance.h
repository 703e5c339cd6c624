#pragma once

#include <optional>

#include "kernels/core/fields.h"

namespace troupe::samplers {

/// Noise levels from `low` to `high`, both included, in the solver's own
/// parametrisation (Schedule::sigmas).
struct SigmaRange {
  double low = 0;
  double high = 0;

  friend bool operator==(const SigmaRange&, const SigmaRange&) = default;
};

void visit_fields(auto& visit, AnyConst<SigmaRange> auto& r) {
  visit("low", r.low);
  visit("high", r.high);
}

/// Classifier-free guidance of a job: two branches of a call become one output.
/// Source: Ho and Salimans 2022; `rescale`: Lin et al. 2024, §3.4; `interval`:
/// Kynkäänniemi et al. 2024.
/// To add a field: a member and a line in visit_guidance here, and an option.
struct Guidance {
  double scale = 1.0;  ///< 1 or less: none
  /// How much of a guided output is scaled to the standard deviation of the
  /// conditional branch, 0 to 1.
  double rescale = 0.0;
  /// A call at another level has the conditional branch alone; unset: every
  /// call is guided.
  std::optional<SigmaRange> interval;

  [[nodiscard]] bool is_on() const noexcept { return scale > 1; }
  /// Whether a call at this level is guided.
  [[nodiscard]] bool is_on_at(double sigma) const noexcept {
    return is_on() &&
           (!interval || (interval->low <= sigma && sigma <= interval->high));
  }

  friend bool operator==(const Guidance&, const Guidance&) = default;
};

/// The fields of a job's record and of a recipe: see option_fields.h.
void visit_guidance(auto& visit, AnyConst<Guidance> auto& r) {
  visit(FieldKey{"guidance_scale", "1: none"}, r.scale);
  visit(if_any({"guidance_rescale",
                "share of a guided output that has the conditional branch's "
                "deviation"}),
        r.rescale);
  visit(if_any({"guidance_interval",
                "noise levels whose calls are guided, LO:HI; absent: all",
                "string"}),
        r.interval);
}

}  // namespace troupe::samplers

#include "actors/simulator/fault_plan.h"

#include <algorithm>

namespace troupe::actors::simulator {
namespace {

/// So many that their mean is `rate`, two at most.
int drawn_count(double rate, Random& random) {
  return (random.chance(rate / 2) ? 1 : 0) + (random.chance(rate / 2) ? 1 : 0);
}

Fault drawn_fault(FaultKind kind, int worker, Duration span, Random& random) {
  Fault fault{kind, TimePoint{} + random.between(Duration{}, span), worker,
              Duration{}, 1.0};
  if (kind == FaultKind::freeze) {
    // From shorter than a lease to several of them.
    fault.length =
        random.between(std::chrono::milliseconds(100), std::chrono::seconds(4));
  } else if (kind == FaultKind::slow) {
    fault.length = random.between(span / 8, span);
    fault.factor = 1.5 + 8.0 * random.unit();
  }
  return fault;
}

}  // namespace

std::vector<Fault> plan_faults(const FaultRates& rates, int num_workers,
                               Duration span, Random& random) {
  const double rate_of[kNumFaultKinds] = {rates.kills, rates.freezes,
                                          rates.slows, rates.process_ends,
                                          rates.drains};
  std::vector<Fault> faults;
  for (int worker = 0; worker < num_workers; ++worker) {
    for (int kind = 0; kind < kNumFaultKinds; ++kind) {
      for (int n = drawn_count(rate_of[kind], random); n > 0; --n) {
        faults.push_back(
            drawn_fault(static_cast<FaultKind>(kind), worker, span, random));
      }
    }
  }
  std::ranges::stable_sort(faults, {}, &Fault::when);
  return faults;
}

}  // namespace troupe::actors::simulator

#include "tests/simulator/fault_plan.h"

#include <algorithm>
#include <iterator>

namespace troupe::actors::simulator {
namespace {

/// A random count of at most two, with mean `rate`.
int drawn_count(double rate, Random& random) {
  return (random.chance(rate / 2) ? 1 : 0) + (random.chance(rate / 2) ? 1 : 0);
}

Fault drawn_fault(FaultKind kind, int worker, Duration span, Random& random) {
  Fault fault;
  fault.kind = kind;
  fault.when = TimePoint{} + random.between(Duration{}, span);
  fault.worker = worker;
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

std::vector<Fault> plan_faults(const FaultRates& rates, int first_worker,
                               int num_workers, int num_samples, Duration span,
                               Random& random) {
  const double rate_of[] = {rates.kills, rates.freezes, rates.slows,
                            rates.process_ends, rates.drains};
  std::vector<Fault> faults;
  for (int worker = first_worker; worker < first_worker + num_workers;
       ++worker) {
    for (int kind = 0; kind < static_cast<int>(std::size(rate_of)); ++kind) {
      for (int n = drawn_count(rate_of[kind], random); n > 0; --n) {
        faults.push_back(
            drawn_fault(static_cast<FaultKind>(kind), worker, span, random));
      }
    }
  }
  for (int sample = 0; sample < num_samples; ++sample) {
    for (int n = drawn_count(rates.cancels, random); n > 0; --n) {
      faults.push_back(drawn_fault(FaultKind::cancel, 0, span, random));
      faults.back().sample_index = static_cast<std::uint64_t>(sample);
    }
  }
  std::ranges::stable_sort(faults, {}, &Fault::when);
  return faults;
}

std::vector<TimePoint> plan_joins(const FaultRates& rates, Duration span,
                                  Random& random) {
  std::vector<TimePoint> times;
  for (int n = drawn_count(rates.joins, random); n > 0; --n) {
    times.push_back(TimePoint{} + random.between(Duration{}, span));
  }
  std::ranges::sort(times);
  return times;
}

}  // namespace troupe::actors::simulator

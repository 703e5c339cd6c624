#include "tests/simulator/link_faults.h"

#include <algorithm>
#include <utility>

namespace troupe::actors::simulator {
namespace {

/// So many that their mean is `rate`.
int drawn_count(double rate, Random& random) {
  const int whole = static_cast<int>(rate);
  return random.between(0, 2 * whole) + (random.chance(rate - whole) ? 1 : 0);
}

}  // namespace

std::vector<LinkFault> plan_link_faults(const LinkFaultRates& rates,
                                        int num_hosts, Duration span,
                                        Duration lease, Random& random) {
  std::vector<LinkFault> faults;
  const auto add = [&](LinkFaultKind kind, double rate, Duration least,
                       Duration most) {
    for (int n = drawn_count(rate, random); n > 0; --n) {
      LinkFault fault;
      fault.kind = kind;
      fault.when = TimePoint{} + random.between(Duration{}, span);
      fault.host = random.between(1, num_hosts);
      fault.length = random.between(least, most);
      if (kind == LinkFaultKind::partition && random.chance(0.5)) {
        (random.chance(0.5) ? fault.to_member : fault.to_listener) = false;
      }
      // TCP gives up after a lease.
      fault.breaks = fault.length > lease || random.chance(0.5);
      fault.lingers = random.chance(0.5);
      faults.push_back(fault);
    }
  };
  add(LinkFaultKind::cut, rates.cuts, {}, {});
  add(LinkFaultKind::cut_in_record, rates.cuts_in_records, {}, {});
  // A frame that was on its way before counts, too: a little less than a lease.
  const Duration shorter = lease * 7 / 10;
  const Duration longer = lease * 13 / 10;
  add(LinkFaultKind::partition, rates.short_partitions, lease / 20, shorter);
  add(LinkFaultKind::partition, rates.long_partitions, longer, 3 * lease);
  add(LinkFaultKind::freeze, rates.short_freezes, lease / 20, shorter);
  add(LinkFaultKind::freeze, rates.long_freezes, longer, 4 * lease);
  add(LinkFaultKind::freeze_home, rates.home_freezes, lease / 20, 3 * lease);
  add(LinkFaultKind::kill, rates.kills, {}, {});
  std::ranges::stable_sort(faults, {}, &LinkFault::when);
  return faults;
}

}  // namespace troupe::actors::simulator

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/random.h"
#include "kernels/core/clock.h"
#include "tests/simulator/link_pair.h"

namespace troupe::actors::simulator {

enum class LinkFaultKind : std::uint8_t {
  cut,            ///< all connections break and are made again
  cut_in_record,  ///< one breaks between two pieces of a record
  partition,      ///< nothing gets through, in one direction or both
  freeze,         ///< the process stands still: it neither reads nor beats
  freeze_home,    ///< the same of the coordinator's process
  kill            ///< the process ends, wherever it is with its joining
};
inline constexpr int kNumLinkFaultKinds = 6;

/// The fault of the process that is on the host at that time.
struct LinkFault {
  LinkFaultKind kind = LinkFaultKind::cut;
  TimePoint when;
  int host = 0;             ///< the number of its first process
  Duration length{};        ///< of partitions and freezes
  bool to_member = true;    ///< of partitions: what does not get through
  bool to_listener = true;  ///< the same
  bool breaks = false;      ///< a partition that breaks connections
  bool lingers = false;     ///< see LinkWire::cut
};

/// How many there are in a job on average; freezes and partitions shorter and
/// longer than a lease.
struct LinkFaultRates {
  double cuts = 1.5;
  double cuts_in_records = 0.75;
  double short_partitions = 0.5;
  double long_partitions = 0.25;
  double short_freezes = 0.4;
  double long_freezes = 0.25;
  double home_freezes = 0.15;
  double kills = 0.25;
};

/// How the processes of a scenario are linked.
struct LinkPlan {
  NetModel net;
  LinkTimes times;
  std::vector<LinkFault> faults;
};

/// On hosts 1 to `num_hosts`, in a job that takes `span` undisturbed, in the
/// order of their times.
[[nodiscard]] std::vector<LinkFault> plan_link_faults(
    const LinkFaultRates& rates, int num_hosts, Duration span, Duration lease,
    Random& random);

}  // namespace troupe::actors::simulator

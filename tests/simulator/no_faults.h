#pragma once

#include "tests/simulator/simulate.h"

namespace troupe::actors::simulator {

/// Rates of schedules in which nothing goes wrong.
inline constexpr FaultRates kNoFaults{.kills = 0,
                                      .freezes = 0,
                                      .slows = 0,
                                      .process_ends = 0,
                                      .drains = 0,
                                      .joins = 0,
                                      .cancels = 0};
inline constexpr LinkFaultRates kNoLinkFaults{.cuts = 0,
                                              .cuts_in_records = 0,
                                              .short_partitions = 0,
                                              .long_partitions = 0,
                                              .short_freezes = 0,
                                              .long_freezes = 0,
                                              .home_freezes = 0,
                                              .kills = 0};

}  // namespace troupe::actors::simulator

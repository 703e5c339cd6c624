#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "actors/simulator/simulate.h"

namespace troupe::actors::simulator {

/// How often something befell a job that its company must outlive, in many
/// schedules together.
class Hazards {
 public:
  struct Count {
    std::string_view name;
    std::uint64_t times = 0;
  };

  void add(const Outcome& one) {
    const auto struck = [&one](FaultKind kind) {
      return one.struck[static_cast<std::size_t>(kind)];
    };
    const int times[] = {struck(FaultKind::kill),
                         struck(FaultKind::freeze),
                         struck(FaultKind::slow),
                         struck(FaultKind::end_process),
                         struck(FaultKind::drain),
                         struck(FaultKind::join),
                         one.cancelled_samples,
                         one.fences,
                         one.late_results,
                         one.empty_pulls,
                         one.cuts,
                         one.restores,
                         one.rebuilds,
                         one.releases};
    for (std::size_t i = 0; i < std::size(times); ++i) {
      counts_.at(i).times += static_cast<std::uint64_t>(times[i]);
    }
  }

  [[nodiscard]] const std::vector<Count>& counts() const { return counts_; }
  [[nodiscard]] const Count& rarest() const {
    return *std::ranges::min_element(counts_, {}, &Count::times);
  }

 private:
  std::vector<Count> counts_{{"kills"},
                             {"freezes"},
                             {"slow workers"},
                             {"processes ended"},
                             {"processes that wanted to leave"},
                             {"processes that joined"},
                             {"samples cancelled"},
                             {"workers past their lease"},
                             {"late results"},
                             {"empty pulls"},
                             {"cuts"},
                             {"samples that went back to a cut"},
                             {"companies put up again"},
                             {"processes let go"}};
};

}  // namespace troupe::actors::simulator

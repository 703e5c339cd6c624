#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/simulator/simulate.h"

namespace troupe::actors::simulator {

/// How often a job met a hazard that its company must outlive, in many
/// schedules together.
class Hazards {
 public:
  struct Count {
    std::string_view name;
    std::uint64_t times = 0;
  };

  /// `linked`: those of links count, too.
  explicit Hazards(bool linked = false) : is_linked_(linked) {
    if (is_linked_) {
      // No company is put up again.
      std::erase_if(counts_,
                    [](const Count& count) { return count.name == kRebuilds; });
      for (const std::string_view name :
           {"connections lost", "connections lost in mid-record",
            "partitions shorter than a lease", "partitions longer than a lease",
            "processes frozen for less than a lease",
            "processes frozen for longer than a lease", "coordinators frozen",
            "processes killed", "pieces that came again",
            "processes that joined in mid-run", "links lost",
            "records that waited for credit", "values passed on"}) {
        counts_.push_back({name});
      }
    }
  }

  void add(const Outcome& one) {
    const auto struck = [&one](FaultKind kind) {
      return one.struck[static_cast<std::size_t>(kind)];
    };
    std::vector<int> times = {struck(FaultKind::kill),
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
                              one.releases,
                              one.kept_recalls,
                              one.lost_cuts};
    if (is_linked_) {
      const LinkHazards& links = one.links;
      times.insert(
          times.end(),
          {links.connections_lost, links.lost_in_record, links.short_partitions,
           links.long_partitions, links.short_freezes, links.long_freezes,
           links.home_freezes, links.kills, links.duplicates, links.joins,
           links.losses, links.waits_for_room, links.relayed_values});
    } else {
      times.push_back(one.rebuilds);
    }
    for (std::size_t i = 0; i < times.size(); ++i) {
      counts_.at(i).times += static_cast<std::uint64_t>(times[i]);
    }
  }

  [[nodiscard]] const std::vector<Count>& counts() const { return counts_; }
  [[nodiscard]] const Count& rarest() const {
    return *std::ranges::min_element(counts_, {}, &Count::times);
  }

 private:
  static constexpr std::string_view kRebuilds = "companies put up again";

  bool is_linked_;
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
                             {"processes let go"},
                             {"recalls of tasks that had begun"},
                             {"cuts whose holder was lost"},
                             {kRebuilds}};
};

}  // namespace troupe::actors::simulator

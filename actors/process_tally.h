#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "actors/process.h"
#include "kernels/core/clock.h"

namespace troupe::actors {

/// Who of a job's processes did what. Each call costs the logarithm of their
/// number, but for `processes`; nothing grows with tasks. Thread: one.
class ProcessTally {
 public:
  void set_means(int process, const ProcessMeans& means);
  void add_worker(int process, int threads);
  void came_up(int process, TimePoint now);
  void worked(int process, Duration busy);
  void finished_task(int process, bool is_row);
  void lost_worker(int process);
  void left(int process, TimePoint now);

  /// As ProcessMeans has it; 0: not said.
  [[nodiscard]] std::uint64_t machine_of(int process) const;
  /// As they were set; null: they were not.
  [[nodiscard]] const ProcessMeans* means_of(int process) const;
  /// By number.
  [[nodiscard]] std::vector<Process> processes(TimePoint now) const;

 private:
  struct Entry {
    Process process;
    std::optional<TimePoint> since;
    std::optional<TimePoint> until;
  };
  [[nodiscard]] Entry& at(int process);

  std::map<int, Entry> entries_;
};

}  // namespace troupe::actors

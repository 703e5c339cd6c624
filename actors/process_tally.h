#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "actors/process_means.h"
#include "kernels/core/clock.h"

namespace troupe::actors {

/// What the workers of one process have done for a job.
struct ProcessFigures {
  int process = 0;
  int workers = 0;          ///< that it brought
  int threads = 0;          ///< of the host, that they compute on
  std::uint64_t tasks = 0;  ///< of theirs, those whose results counted
  std::uint64_t rows = 0;   ///< of these, rows that passed the network; each
                            ///< segment of a pipeline counts as one
  Duration busy{};          ///< of all of them, in passes
  /// Since the first of them came up, until the process left.
  Duration present{};
  int losses = 0;  ///< incarnations of workers that were lost
  ProcessMeans means;

  /// Busy time as a part of the time that the workers were present; 0: not
  /// known yet.
  [[nodiscard]] double busy_share() const;

  friend bool operator==(const ProcessFigures&,
                         const ProcessFigures&) = default;
};

/// Who of a job's processes did what. Each call costs the logarithm of their
/// number, but for `figures`; nothing grows with tasks. Thread: one.
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
  [[nodiscard]] std::vector<ProcessFigures> figures(TimePoint now) const;

 private:
  struct Entry {
    ProcessFigures figures;
    std::optional<TimePoint> since;
    std::optional<TimePoint> until;
  };
  [[nodiscard]] Entry& at(int process);

  std::map<int, Entry> entries_;
};

}  // namespace troupe::actors

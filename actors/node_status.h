#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/process_means.h"

namespace troupe::actors {

/// A process of a job, for people and for programs that watch.
struct NodeStatus {
  std::string name;  ///< host and process
  int process = 0;   ///< its number in the job; 0: the one that directs
  int workers = 0;
  int threads = 0;          ///< see ProcessFigures
  std::uint64_t tasks = 0;  ///< see ProcessFigures
  std::uint64_t rows = 0;   ///< the same
  double busy_seconds = 0;  ///< of all of them
  double busy_share = 0;    ///< see ProcessFigures
  /// Of tensors, over its links.
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  int losses = 0;  ///< incarnations of its workers that were lost
  /// "done", "left"; of a job that runs: "here", "left"; of one that has not
  /// begun: "here", "encodes"
  std::string status = "done";
  std::string cause = {};  ///< why it left
  ProcessMeans means = {};
  std::vector<std::string> execution_classes = {};  ///< of its workers, by name

  /// The mean while its workers were here; 0: not known yet.
  [[nodiscard]] double rows_per_second() const {
    // busy_share is busy_seconds over the seconds that each of them was here.
    return busy_seconds > 0
               ? static_cast<double>(rows) * busy_share * workers / busy_seconds
               : 0;
  }

  friend bool operator==(const NodeStatus&, const NodeStatus&) = default;
};

}  // namespace troupe::actors

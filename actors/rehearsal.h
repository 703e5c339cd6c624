#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "actors/link_table.h"
#include "samplers/parallel/method.h"

namespace troupe::actors {

/// What a task of a rehearsal costs.
struct TaskCost {
  double share = 0;                         ///< of a row of the whole network
  std::vector<std::uint64_t> output_bytes;  ///< one for each output
};

/// Who computes a part, as it is tried.
struct PartWorker {
  int worker = 0;
  int process = 0;
};

/// The first calls of a sample, as the method itself issues them, to predict
/// what a call takes with other workers and links. The tasks are recorded once;
/// each prediction goes through them without allocating for a task.
/// Thread: one.
class Rehearsal {
 public:
  /// `method`: a new one, used up here. Records at most `calls` calls.
  Rehearsal(samplers::Method& method, int calls,
            const std::function<TaskCost(const samplers::Task&)>& cost_of);

  /// Seconds of a call with so many samples in flight, if a row of the whole
  /// network takes `row_seconds`, and a link carries one value after the other.
  /// `parts`: the worker of each part of the method.
  [[nodiscard]] double seconds_per_call(const std::vector<PartWorker>& parts,
                                        const LinkTable& links,
                                        double row_seconds,
                                        std::size_t in_flight) const;

 private:
  struct Step {
    std::size_t part = 0;
    double share = 0;
    std::vector<std::size_t> inputs;  ///< places in values_
    std::size_t first_output = 0;
    std::size_t num_outputs = 0;
    bool is_last_of_its_wave = false;
  };
  class Play;

  std::vector<Step> steps_;
  std::vector<std::uint64_t> values_;  ///< bytes of each value that was made
  int calls_ = 0;
};

}  // namespace troupe::actors

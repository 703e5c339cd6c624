#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "actors/emulation/machine.h"
#include "kernels/core/value_channel.h"

namespace troupe::actors::emulation {

/// The tasks of an emulated job, the values that went from task to task, and
/// the passes that ran them. A pass stands behind the passes that made its
/// inputs.
struct TaskGraph {
  /// An input that another task made.
  struct Input {
    std::size_t maker = 0;  ///< its task
    std::uint64_t bytes = 0;
  };
  struct Node {
    samplers::Task task;
    std::size_t pass = 0;
    std::vector<Input> inputs;
  };
  struct Pass {
    std::vector<std::size_t> nodes;
    double slowness = 1;  ///< of its jitter
  };
  std::vector<Node> nodes;
  std::vector<Pass> passes;
};

/// Writes down a task graph while its tasks run. Thread: one.
class GraphRecorder {
 public:
  /// A pass of these tasks begins.
  void begin(std::span<const SampleTask> tasks, double slowness);
  /// A pass that began has made a value.
  void made(const ValueName& name, std::uint64_t bytes);
  [[nodiscard]] TaskGraph take() { return std::move(graph_); }

 private:
  TaskGraph graph_;
  std::map<ValueName, TaskGraph::Input> values_;
};

/// Who may run the parts of a job's samples.
struct Placement {
  int num_parts = 1;
  /// Any device may run an evaluation.
  bool spreads = false;
};

/// What no control can beat, and what simple control would reach.
struct Bounds {
  /// The longest chain of tasks, each alone on the fastest device, and of the
  /// values that must change device since the plan says so.
  double critical_path = 0;
  /// All work, in passes as full as `max_rows` allows, over the sum of all
  /// speeds; or, if larger, a part's work over the speeds of its devices.
  double work = 0;
  /// All bytes that were sent, spread evenly over the devices' links.
  double traffic = 0;
  /// A list schedule of the same passes: whichever became ready first goes
  /// where it ends first, knows at once what has ended, and its inputs leave as
  /// soon as they are made. Control takes no time.
  double list_schedule = 0;

  [[nodiscard]] double lower() const;
};

/// `max_rows`: tasks of one pass; bytes_sent: by the run.
[[nodiscard]] Bounds bounds_of(const TaskGraph& graph, const Machine& machine,
                               const Placement& placement, int max_rows,
                               std::uint64_t bytes_sent);

}  // namespace troupe::actors::emulation

#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "actors/cli/job_request.h"
#include "actors/cli/signals.h"
#include "config/config.h"

// Passes through some of a model's blocks, timed on the devices of a job before
// the model is read (random weights), and scaled to the whole network. This
// takes some seconds for networks of billions of parameters.

namespace troupe::actors {

/// Seconds that a group of GPUs (--shards) takes for a pass of one image.
struct GroupTimes {
  double alone = 0;  ///< by the first GPU
  /// By all of them; empty: the GPUs cannot divide the network so.
  std::optional<double> gather;
  std::optional<double> ulysses;
  std::string how;  ///< what was measured, for people

  [[nodiscard]] std::optional<double> of(AttentionPlan plan) const {
    return plan == AttentionPlan::ulysses ? ulysses : gather;
  }
  /// Seconds of the faster plan. At least one plan must be there.
  [[nodiscard]] double best() const {
    return gather && ulysses ? std::min(*gather, *ulysses)
                             : gather.value_or(ulysses.value_or(0));
  }
};

/// How fast this machine runs the model's blocks.
struct Pace {
  double row_seconds = 0;  ///< a whole forward pass of one row, by one worker
  double flops_per_second = 0;           ///< of one worker
  std::string how;                       ///< what was measured, for people
  std::optional<GroupTimes> group = {};  ///< of its first group of GPUs
};

/// Of the average worker of the request: devices take samples as fast as they
/// go. Empty when there is too little memory to measure. Errors:
/// Errc::interrupted, when asked to stop; thread_refusal.
[[nodiscard]] std::optional<Pace> joint_pace(const JobRequest& request,
                                             StopFlag& stop);

/// How fast one GPU copies from another one.
struct GpuLink {
  double latency = 0;  ///< seconds that an exchange takes beside its bytes
  double bytes_per_second = 0;
};

/// Measured between the first two GPUs that the request uses; empty: it uses
/// fewer. Takes some milliseconds. Errors: as DeviceBackend.
[[nodiscard]] std::optional<GpuLink> probe_link(const JobRequest& request);

/// The plan that divides passes fastest, and why. Errors: Errc::unsupported
/// where one GPU alone is as fast. `place`: of --shards. Pure.
struct ShardChoice {
  AttentionPlan plan = AttentionPlan::gather;
  std::string why;
};
[[nodiscard]] ShardChoice fastest_plan(const GroupTimes& times, int shards,
                                       const std::string& place);

/// Where GPUs are to divide passes and --shard-plan is "auto": takes the plan
/// that is fastest here, and returns a note of it. Errors: those of
/// fastest_plan; Errc::interrupted, when asked to stop; Errc::unsupported if
/// the GPUs can divide the network by no plan.
[[nodiscard]] std::optional<std::string> choose_shard_plan(
    const config::Config& config, JobRequest& request, StopFlag& stop);

}  // namespace troupe::actors

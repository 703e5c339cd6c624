#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "actors/runtime.h"
#include "kernels/core/tensor.h"
#include "samplers/options.h"

// Real workers of one process that are ended, frozen and slowed while they
// compute. A seed says what happens with which pass of the job. Whose pass that
// is, the system's scheduler decides.

namespace troupe::actors {

enum class Disturbance : std::uint8_t {
  end_within,   ///< the worker's actor is killed while its executor computes
  end_between,  ///< the worker's executor refuses its next pass
  freeze,       ///< its executor stands still until it was taken for dead
  pause,        ///< its executor stands still for a moment
  slow          ///< every further pass of this incarnation takes longer
};
inline constexpr std::string_view kDisturbances[] = {
    "killed within a pass", "ended between passes", "frozen", "paused",
    "slowed"};

struct PlannedDisturbance {
  Disturbance kind = Disturbance::pause;
  bool is_behind = false;  ///< strikes when the pass has computed
  int milliseconds = 1;    ///< of a pause, or of each pass of a slow worker
};

/// What happens in one job.
struct DisturbancePlan {
  std::uint64_t seed = 0;
  int max_rows = 1;  ///< of a pass
  /// Results reach the coordinator by its inbox. Otherwise each is a message,
  /// and workers can be killed by name.
  bool has_inbox = true;
  /// By the number of the pass that it strikes, from 1 on.
  std::map<int, PlannedDisturbance> by_pass;
};

/// Nothing happens.
inline constexpr std::uint64_t kUndisturbed = ~std::uint64_t{0};
/// At most two workers end or freeze, so no sample is parked.
[[nodiscard]] DisturbancePlan plan_disturbances(std::uint64_t seed);
/// One line for a person.
[[nodiscard]] std::string to_string(const DisturbancePlan& plan);

struct DisturbedRun {
  JobResult result;
  std::map<std::uint64_t, Tensor> latents;  ///< by sample
  /// Of the trajectories, by sample and call.
  std::map<std::uint64_t, std::map<int, Tensor>> points;
  /// How often each kind really struck.
  std::array<int, std::size(kDisturbances)> struck{};
  /// Passes that computed values after the end of their worker.
  int late_passes = 0;
};

/// Five samples of eight steps over the toy network, by three workers.
/// Thread: any; several at a time.
[[nodiscard]] DisturbedRun run_disturbed(const samplers::MethodOptions& method,
                                         const DisturbancePlan& plan);

}  // namespace troupe::actors

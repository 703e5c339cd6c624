#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/coordinator_policy.h"
#include "actors/supervisor_policy.h"
#include "samplers/options.h"
#include "samplers/schedule.h"
#include "tests/simulator/fault_plan.h"
#include "tests/simulator/link_faults.h"
#include "tests/simulator/models.h"

namespace troupe::actors::simulator {

/// A method with options.
struct Variant {
  samplers::MethodOptions method;
  const samplers::Schedule* schedule =
      nullptr;             ///< lives as long as the program
  std::size_t number = 0;  ///< in variants()
};
/// Every method of the table, with several choices of options and lengths.
[[nodiscard]] const std::vector<Variant>& variants();

/// Of a job that is observed: model calls between previews.
inline constexpr int kPreviewEvery = 3;

/// One job and its faults. Everything in it follows from the seed.
struct Scenario {
  std::uint64_t seed = 0;
  const Variant* variant = nullptr;
  int num_samples = 20;
  /// First the workers of the start, then the workers that join, in joining
  /// order. The indices are the numbers that the coordinator will assign.
  std::vector<WorkerTraits> workers;
  int num_at_start = 1;   ///< workers
  int num_processes = 1;  ///< of all workers, and the coordinator's
  /// By worker: the delay of its first start.
  std::vector<Duration> delays;
  std::vector<DeviceModel> devices;  ///< by worker
  int max_rows = 1;
  bool decode = true;
  bool is_observed = false;  ///< observers get trajectories and previews
  ValueSizes value_sizes = {.state = 5,
                            .output = 3,
                            .boundary = 7,
                            .skips = 6,
                            .pixels = 4,
                            .cache = 8};
  /// By process: what it keeps for values; 0: no limit.
  std::vector<std::uint64_t> value_budgets;
  LeaseOptions lease = {.least = std::chrono::seconds(1), .factor = 2};
  /// Samples are short here.
  CutOptions cuts = {.interval = std::chrono::milliseconds(30), .calls = 3};
  Duration pulse = std::chrono::milliseconds(250);
  LinkModel link;
  ProcessModel process;
  RestartOptions restart;
  std::vector<Fault> faults;
  /// After so many events the whole company ends and is put up again; 0: never.
  std::uint64_t rebuild_at = 0;
  /// How other processes reach the coordinator's; none: their messages arrive.
  /// With links all of them join, those of the start with the job, and who is
  /// gone is followed by another process of the same host.
  std::optional<LinkPlan> links;
};

/// At least 20 samples of 12 calls on 4 workers; every method as often as the
/// others.
[[nodiscard]] Scenario make_scenario(std::uint64_t seed,
                                     const FaultRates& rates = {});

/// The same over links, with faults of their own. No company is put up again.
[[nodiscard]] Scenario make_linked_scenario(
    std::uint64_t seed, const FaultRates& rates = {},
    const LinkFaultRates& link_rates = {});

/// What one sample holds in a process at most, copies for cuts counted, with as
/// many tasks ahead.
[[nodiscard]] std::uint64_t sample_bytes(const Scenario& scenario, int process,
                                         int max_open);

/// One line that a person recognises it by.
[[nodiscard]] std::string to_string(const Scenario& scenario);

}  // namespace troupe::actors::simulator

#include "config/method_plan.h"

#include <algorithm>
#include <string>

#include "config/method_names.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;

bool is_gpu(DeviceKind kind) { return kind == DeviceKind::cuda; }

bool uses_gpus(const PlanInputs& inputs) {
  return std::ranges::any_of(inputs.devices, is_gpu);
}

/// So many workers, one device after the other.
std::vector<int> deal(int workers, std::size_t devices) {
  std::vector<int> counts(devices);
  for (int w = 0; w < workers; ++w) {
    ++counts[static_cast<std::size_t>(w) % devices];
  }
  return counts;
}

int num_gpu_workers(const PlanInputs& inputs, const std::vector<int>& counts) {
  int sum = 0;
  for (std::size_t d = 0; d < counts.size(); ++d) {
    sum += is_gpu(inputs.devices[d]) ? counts[d] : 0;
  }
  return sum;
}

/// A sample stays with devices of one kind.
MethodKind choose_kind_on_gpus(const Config& config, const PlanInputs& inputs) {
  const auto all = static_cast<int>(inputs.devices.size());
  const int workers = config.num_workers > 0 ? config.num_workers : all;
  const auto gpus = static_cast<std::uint64_t>(
      num_gpu_workers(inputs, deal(workers, inputs.devices.size())));
  if (inputs.is_guided && gpus > inputs.num_samples) {
    return MethodKind::cfg;
  }
  return inputs.num_samples > 1 ? MethodKind::batch : MethodKind::sequential;
}

MethodKind choose_kind(const Config& config, const PlanInputs& inputs) {
  if (config.method.kind) {
    return *config.method.kind;
  }
  if (!config.method.preset.empty()) {
    const auto table = samplers::method_table();
    return *std::ranges::find_if(
        table, [](MethodKind kind) { return kind->takes("preset"); });
  }
  if (uses_gpus(inputs)) {
    return choose_kind_on_gpus(config, inputs);
  }
  const auto workers = static_cast<std::uint64_t>(
      config.num_workers > 0 ? config.num_workers : inputs.num_cores);
  if (workers > inputs.num_samples && inputs.is_guided) {
    return MethodKind::cfg;
  }
  return workers > 1 && inputs.num_samples > 1 ? MethodKind::batch
                                               : MethodKind::sequential;
}

int default_segments(const Config& config, const PlanInputs& inputs) {
  constexpr int kFewest = 2;
  if (config.method.ages.size() > 1) {
    return static_cast<int>(config.method.ages.size()) + 1;
  }
  const int places = uses_gpus(inputs) ? static_cast<int>(inputs.devices.size())
                                       : inputs.num_cores;
  const int workers = config.num_workers > 0 ? config.num_workers : places;
  return std::min(std::max(workers, kFewest), std::max(inputs.num_blocks, 1));
}

MethodOptions method_options(const Config& config, const PlanInputs& inputs) {
  const MethodKind kind = choose_kind(config, inputs);
  check_method_options(config, kind);
  // It would compute the one branch twice.
  require(!kind->splits_guidance || inputs.is_guided, Errc::invalid_argument,
          config.place_of("method"),
          std::string(kind->name) +
              " shares out the two branches of guidance, and this job has one: "
              "got no --guidance above 1",
          "guide by more than 1, or leave --method out");
  MethodOptions options;
  if (kind->defaults != nullptr) {
    options = kind->defaults(config.method, inputs.num_calls);
  }
  options.kind = kind;
  if (kind->takes("segments")) {
    options.num_segments = default_segments(config, inputs);
  }
  apply_choices(config.method, options);
  if (num_segments(options) > inputs.num_blocks) {
    throw Error(Errc::invalid_argument, config.place_of("segments"),
                "more segments than the network has blocks: got " +
                    std::to_string(options.num_segments) +
                    ", expected at most " + std::to_string(inputs.num_blocks));
  }
  return options;
}

void lay_out_on_gpus(const Config& config, const PlanInputs& inputs,
                     std::uint64_t useful, Plan& plan) {
  const std::size_t devices = inputs.devices.size();
  plan.num_workers =
      config.num_workers > 0
          ? config.num_workers
          : static_cast<int>(std::min<std::uint64_t>(useful, devices));
  plan.device_workers = deal(plan.num_workers, devices);
  const int gpu_workers = num_gpu_workers(inputs, plan.device_workers);
  const int cpu_workers = plan.num_workers - gpu_workers;
  if (cpu_workers == 0) {
    return;
  }
  // Each worker of a GPU keeps a core busy with telling it what to do.
  const int cores = std::max(inputs.num_cores - gpu_workers, 1);
  plan.num_threads = config.num_threads > 0 ? config.num_threads
                                            : std::max(cores / cpu_workers, 1);
}

}  // namespace

Plan make_plan(const Config& config, const PlanInputs& inputs) {
  Plan plan;
  plan.method = method_options(config, inputs);
  const std::uint64_t useful = std::max<std::uint64_t>(
      plan.method.kind->useful_workers(plan.method, inputs.num_samples), 1);
  if (uses_gpus(inputs)) {
    lay_out_on_gpus(config, inputs, useful, plan);
    return plan;
  }
  // Threads asked for by name leave fewer cores for workers.
  const int cores =
      std::max(inputs.num_cores / std::max(config.num_threads, 1), 1);
  plan.num_workers = config.num_workers > 0
                         ? config.num_workers
                         : static_cast<int>(std::min(
                               useful, static_cast<std::uint64_t>(cores)));
  plan.num_threads = config.num_threads > 0
                         ? config.num_threads
                         : std::max(inputs.num_cores / plan.num_workers, 1);
  plan.device_workers = {plan.num_workers};
  return plan;
}

}  // namespace troupe::config

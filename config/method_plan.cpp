#include "config/method_plan.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "config/enum_names.h"
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
    return MethodKind::stale;
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

/// Workers that a method can keep busy.
std::uint64_t useful_workers(const MethodOptions& method,
                             const PlanInputs& inputs) {
  switch (method.kind) {
    case MethodKind::sequential:
      return 1;
    case MethodKind::batch:
      return inputs.num_samples;
    case MethodKind::cfg:
      return inputs.num_samples * 2;
    case MethodKind::picard:
      return inputs.num_samples *
             static_cast<std::uint64_t>(method.window_size);
    case MethodKind::pipeline:
      return static_cast<std::uint64_t>(method.num_segments);
    case MethodKind::stale:
      return static_cast<std::uint64_t>(method.num_segments + method.stride -
                                        1);
  }
  return 1;
}

void check_options(const Config& config, MethodKind kind) {
  const MethodConfig& m = config.method;
  const auto refuse = [&](bool said, const char* key, const char* owner) {
    if (said) {
      throw Error(Errc::invalid_argument, config.place_of(key),
                  "this is an option of --method " + std::string(owner) +
                      ": got method " + name_of(kind),
                  "leave it out, or choose that method");
    }
  };
  if (kind != MethodKind::picard) {
    refuse(m.window_size.has_value(), "window", "picard");
    refuse(m.tolerance.has_value(), "tolerance", "picard");
    refuse(m.carry.has_value(), "carry", "picard");
    refuse(m.initial_guess.has_value(), "guess", "picard");
    refuse(m.accept.has_value(), "accept", "picard");
  }
  if (kind != MethodKind::stale && kind != MethodKind::pipeline) {
    refuse(m.num_segments.has_value(), "segments", "pipeline or stale");
  }
  if (kind != MethodKind::stale) {
    refuse(!m.ages.empty(), "ages", "stale");
    refuse(m.stride.has_value(), "stride", "stale");
    refuse(m.warmup_steps.has_value(), "warmup", "stale");
    refuse(m.final_fresh_steps.has_value(), "final-fresh", "stale");
  }
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

/// Of Accept::settled: 0.15 / √N for N model calls, because what points are
/// left with adds up over the run. Not below 0.022: there 100 steps took up to
/// 56 rounds instead of 47 and came no closer. scripts/bench_picard.sh measures
/// what this and the settings below give.
double settled_tolerance(int num_calls) {
  constexpr int kFewest = 20;
  constexpr double kLeast = 0.022;
  const auto calls = static_cast<double>(std::max(num_calls, kFewest));
  return std::max(0.15 / std::sqrt(calls), kLeast);
}

/// A tolerance that is named without a rule belongs to the rule that was once
/// the only one, with the carry and guess of that time: such commands keep
/// their bytes.
MethodOptions picard_options(const MethodConfig& m, int num_calls) {
  using samplers::Accept;
  MethodOptions options;
  options.kind = MethodKind::picard;
  options.accept =
      m.accept.value_or(m.tolerance ? Accept::first_failing : Accept::settled);
  if (options.accept == Accept::settled) {
    options.tolerance = settled_tolerance(num_calls);
    options.carry = samplers::Carry::deviation;
    options.initial_guess = samplers::InitialGuess::constant_x0;
  }
  if (num_calls > 0) {  // only a window that was asked for is refused
    options.window_size = std::min(options.window_size, num_calls);
  }
  options.window_size = m.window_size.value_or(options.window_size);
  options.tolerance = m.tolerance.value_or(options.tolerance);
  options.carry = m.carry.value_or(options.carry);
  options.initial_guess = m.initial_guess.value_or(options.initial_guess);
  return options;
}

MethodOptions method_options(const Config& config, const PlanInputs& inputs) {
  const MethodConfig& m = config.method;
  MethodOptions options;
  options.kind = choose_kind(config, inputs);
  check_options(config, options.kind);
  // It would compute the one branch twice.
  require(options.kind != MethodKind::cfg || inputs.is_guided,
          Errc::invalid_argument, config.place_of("method"),
          "cfg shares out the two branches of guidance, and this job has one: "
          "got no --guidance above 1",
          "guide by more than 1, or leave --method out");
  if (options.kind == MethodKind::picard) {
    return picard_options(m, inputs.num_calls);
  }
  options.warmup_steps = m.warmup_steps.value_or(options.warmup_steps);
  options.final_fresh_steps =
      m.final_fresh_steps.value_or(options.final_fresh_steps);
  options.stride = m.preset == "asyncdiff2" ? 2 : 1;
  options.stride = m.stride.value_or(options.stride);
  if (m.ages.size() == 1) {
    options.age = m.ages.front();
  } else {
    options.ages = m.ages;
  }
  if (options.kind == MethodKind::pipeline ||
      options.kind == MethodKind::stale) {
    options.num_segments =
        m.num_segments.value_or(default_segments(config, inputs));
    if (options.num_segments > inputs.num_blocks) {
      throw Error(Errc::invalid_argument, config.place_of("segments"),
                  "more segments than the network has blocks: got " +
                      std::to_string(options.num_segments) +
                      ", expected at most " +
                      std::to_string(inputs.num_blocks));
    }
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
  const std::uint64_t useful =
      std::max<std::uint64_t>(useful_workers(plan.method, inputs), 1);
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

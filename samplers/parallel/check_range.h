#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/core/error.h"
#include "samplers/options.h"
#include "samplers/schedule.h"

// For the files of the methods only.

namespace troupe::samplers {

/// Errors: Errc::invalid_argument that names the option.
inline void check_range(const char* option, int value, int low, int high,
                        const char* what) {
  require(value >= low && value <= high, Errc::invalid_argument, option,
          std::string(what) + ": got " + std::to_string(value) + ", expected " +
              std::to_string(low) + " to " + std::to_string(high));
}

inline void check_window(const MethodOptions& options, int num_calls) {
  check_range("window_size", options.window_size, 1, num_calls,
              "a window is a number of model calls of this run");
}

inline void check_fresh_steps(const MethodOptions& options, int num_calls) {
  check_range("warmup_steps", options.warmup_steps, 0, num_calls,
              "counts model calls of this run");
  check_range("final_fresh_steps", options.final_fresh_steps, 0, num_calls,
              "counts model calls of this run");
}

/// As many points at once as workers, from two on, and not more than `most` or
/// than there are calls (0: not known).
inline int default_window(int num_workers, int most, int num_calls) {
  const int window = std::clamp(num_workers, 2, most);
  return num_calls > 0 ? std::min(window, num_calls) : window;
}

/// Of a method with a window.
inline int rows_of_window(const MethodOptions& options) {
  return std::max(options.window_size, 1);
}
/// One worker for each row of each sample.
template <int (*rows)(const MethodOptions&)>
std::uint64_t workers_of(const MethodOptions& options, std::uint64_t samples) {
  return samples * static_cast<std::uint64_t>(rows(options));
}
/// Every round a whole window, one point accepted. The next round begins before
/// a round has ended, so that workers need not wait for each other.
inline Turn turn_of_window(const MethodOptions& options,
                           const TurnShape& shape) {
  Turn turn;
  for (int accepted = 0; accepted < shape.num_calls; ++accepted) {
    const int points =
        std::min(options.window_size, shape.num_calls - accepted);
    turn.evaluations += points;
    turn.latency +=
        std::max(1.0, static_cast<double>(points) / shape.num_workers);
  }
  turn.busy = turn.evaluations / shape.num_workers;
  return turn;
}

/// For methods that begin in the middle of a run.
/// Errors: Errc::unsupported for a solver that draws noise in its steps, or
/// calls the network more than once a step.
inline void check_one_call_without_noise(const MethodOptions& options,
                                         const Schedule& schedule) {
  const bool draws = schedule.is_stochastic();
  require(!draws && schedule.num_steps() == schedule.num_model_calls(),
          Errc::unsupported, "method",
          std::string(options.kind->name) + " needs a sampler that " +
              (draws ? "draws no noise in its steps"
                     : "calls the network once a step"),
          "use --sampler ddim, dpm++2m, unipc, euler or flow, or --method "
          "draft or picard");
}

}  // namespace troupe::samplers

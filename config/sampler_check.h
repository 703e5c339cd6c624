#pragma once

#include "config/config.h"
#include "config/scheduler_config.h"
#include "samplers/options.h"

namespace troupe::config {

/// Refuses what the user said and the solver of `options` would drop: --eta
/// with euler, --order with ddim. What a checkpoint's file says beside the
/// point is no error, as in diffusers.
/// Errors: Errc::invalid_argument naming the flag and the solvers that take it.
void check_sampler(const SamplerConfig& sampler,
                   const samplers::ScheduleOptions& options);

/// Refuses options that contradict the solver's name: "dpm++3m" is of order 3.
/// Errors: Errc::invalid_argument.
void check_name(const SamplerConfig& sampler, const SolverChoice& choice);

}  // namespace troupe::config

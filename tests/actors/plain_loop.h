#pragma once

#include "samplers/noise_source.h"
#include "tests/parallel/run_local.h"

namespace troupe::actors {

/// A sample's final latents by the plain loop on the CPU: what every company is
/// compared with; by the sequential method, unless another is named.
inline Tensor plain_loop(const samplers::Schedule& schedule,
                         samplers::NoiseSource& noise,
                         samplers::TaskRunner& runner, const Shape& latents,
                         std::uint64_t sample,
                         const samplers::MethodOptions& options = {}) {
  ExecContext ctx;
  const auto plain = make_method(options, schedule);
  Tensor unit(latents, DType::f32);
  noise.initial(sample, unit);
  return run_local(*plain, runner, ctx, sample,
                   initial_state(ctx, schedule, unit))
      .latents;
}

}  // namespace troupe::actors

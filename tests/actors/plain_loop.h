#pragma once

#include "samplers/noise_source.h"
#include "tests/parallel/run_local.h"

namespace troupe::actors {

/// A sample's final latents by the plain loop on the CPU: what every company is
/// compared with.
inline Tensor plain_loop(const samplers::Schedule& schedule,
                         samplers::NoiseSource& noise,
                         samplers::TaskRunner& runner, const Shape& latents,
                         std::uint64_t sample) {
  ExecContext ctx;
  const auto plain = make_method({}, schedule);
  Tensor unit(latents, DType::f32);
  noise.initial(sample, unit);
  return run_local(*plain, runner, ctx, sample,
                   initial_state(ctx, schedule, unit))
      .latents;
}

}  // namespace troupe::actors

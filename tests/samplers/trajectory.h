#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "samplers/noise_source.h"
#include "samplers/schedule.h"
#include "samplers/solver.h"

namespace troupe::samplers::testing {

/// Networks made of +, ·, / and |x| alone, so that every language computes the
/// same float32 numbers.
struct ToyModel {
  /// "linear": scale·x; "ramp": x·t/(t+1); "soft": scale·x/(1+|x|) + t/1e4
  std::string kind = "soft";
  float scale = 1.0F;
  bool learned_variance = false;  ///< 2C channels, the second half 0.5·first
};

[[nodiscard]] Tensor evaluate(const ToyModel& model, const Tensor& latents,
                              double timestep);

/// Every point of a run, the initial latents first.
[[nodiscard]] std::vector<Tensor> run(const Schedule& schedule,
                                      const ToyModel& model,
                                      const Tensor& initial_latents,
                                      NoiseSource& noise,
                                      std::uint64_t sample_index = 0);

}  // namespace troupe::samplers::testing

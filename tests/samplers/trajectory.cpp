#include "tests/samplers/trajectory.h"

#include <cmath>
#include <cstddef>

namespace troupe::samplers::testing {

Tensor evaluate(const ToyModel& model, const Tensor& latents, double timestep) {
  const Shape& s = latents.shape();
  const std::int64_t copies = model.learned_variance ? 2 : 1;
  Tensor output({copies * s[0], s[1], s[2]}, DType::f32);
  const auto t = static_cast<float>(timestep);
  const auto x = latents.span<float>();
  const auto y = output.span<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (model.kind == "linear") {
      y[i] = model.scale * x[i];
    } else if (model.kind == "ramp") {
      y[i] = x[i] * t / (t + 1.0F);
    } else {
      y[i] = model.scale * x[i] / (1.0F + std::fabs(x[i])) + t / 10000.0F;
    }
    if (model.learned_variance) {
      y[x.size() + i] = 0.5F * y[i];
    }
  }
  return output;
}

std::vector<Tensor> run(const Schedule& schedule, const ToyModel& model,
                        const Tensor& initial_latents, NoiseSource& noise,
                        std::uint64_t sample_index) {
  SolverState state;
  state.latents = initial_latents;
  std::vector<Tensor> points = {initial_latents};
  ExecContext ctx;
  for (int call = 0; call < schedule.num_model_calls(); ++call) {
    const Tensor input = scale_model_input(ctx, schedule, call, state.latents);
    const Tensor output = evaluate(model, input, schedule.timestep(call));
    state =
        step(ctx, schedule, call, call + 1, state, output, sample_index, noise);
    points.push_back(state.latents);
  }
  return points;
}

}  // namespace troupe::samplers::testing

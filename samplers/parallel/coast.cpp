// Drafts: the solver's own steps without the network, and what a step makes of
// an output that the network gave for a draft.

#include <cmath>
#include <utility>

#include "samplers/parallel/op_run.h"
#include "samplers/step_arithmetic.h"

namespace troupe::samplers {

double response_carry(const Schedule& schedule, int call) {
  // The deviation s. Drafts are off along the directions in which pictures
  // differ most, so s is large. 20 and 50 steps of `stale` of two parts, demo
  // model, bf16, relative RMSE from the sequential run, medians of 32 runs:
  // 0.024 and 0.010 with 8, 0.026 and 0.011 with 4, 0.030 and 0.012 with 1.
  // Infinity takes the output as the noise at the new latents: 0.024 and 0.023,
  // though with a longer warm-up and a tenth of the calls fresh.
  constexpr double kDeviation = 8.0;
  if (schedule.options().solver->begins_at_anchor) {
    return 0.0;
  }
  const NoiseLevel here = schedule.level(call);
  const NoiseLevel there = schedule.arrival(call + 1);
  const double data = here.alpha * kDeviation * kDeviation;
  const double response = data / (here.alpha * data + here.sigma * here.sigma);
  const double noise = 1.0 - here.alpha * response;
  return there.alpha * response +
         (noise == 0.0 ? 0.0 : there.sigma * noise / here.sigma);
}

std::vector<SolverState> OpRun::coast(const BoundTask& bound,
                                      const CleanLine& line, int from,
                                      SolverState state,
                                      std::size_t num_steps) const {
  const Tensor newest =
      denoised(ctx, schedule, line.call, line.latents, line.output);
  Tensor older;
  if (!line.older_latents.empty()) {
    older = denoised(ctx, schedule, line.older_call, line.older_latents,
                     line.older_output);
  }
  std::vector<SolverState> points;
  for (std::size_t i = 0; i < num_steps; ++i) {
    const int call = from + static_cast<int>(i);
    const double ahead = older.empty() ? 0.0
                                       : static_cast<double>(call - line.call) /
                                             (line.call - line.older_call);
    const Tensor clean = weighted_sum(
        ctx, Memory::lasting, {{1.0 + ahead, &newest}, {-ahead, &older}});
    state =
        step(ctx, schedule, call, call + 1, state,
             output_for(ctx, schedule, call, state.latents, clean, line.output),
             bound.sample_index, noise);
    points.emplace_back().latents = state.latents;
  }
  return points;
}

void run_coast(const OpRun& run, OpTasks tasks) {
  const BoundTask& bound = *tasks.front();
  const Task& task = bound.task;
  const double call = task.coefficients.at(0);
  const int num_steps = task.to - task.from;
  const auto num_kept = static_cast<int>(task.outputs.size());
  require(call >= 0 && call < task.from && call == std::floor(call) &&
              num_kept <= num_steps,
          Errc::internal, "coast", "has a wrong number of points");
  const CleanLine line{.call = static_cast<int>(call),
                       .latents = run.latents(bound, 1),
                       .output = run.tensor(bound, 2)};
  std::vector<SolverState> points =
      run.coast(bound, line, task.from, run.state(bound, task.inputs.at(0)),
                static_cast<std::size_t>(num_steps));
  points.erase(points.begin(), points.end() - num_kept);
  run.write_states(bound, task.to - num_kept + 1, std::move(points));
}

}  // namespace troupe::samplers

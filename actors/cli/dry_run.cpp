#include "actors/cli/dry_run.h"

#include <fmt/format.h>

#include <cmath>

#include "actors/cli/forecast.h"
#include "actors/cli/progress_printer.h"
#include "config/enum_names.h"
#include "config/schedule_options.h"
#include "kernels/core/system.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

const char* verdict(std::uint64_t needed, std::uint64_t available) {
  return needed <= available ? "fits" : "does not fit";
}

std::string time_text(const PlanSummary& plan) {
  constexpr double kClock = 100;  // from here on hours and minutes read better
  if (!plan.predicted_seconds) {
    return "not predicted: " + plan.measured;
  }
  const double seconds = *plan.predicted_seconds;
  return fmt::format("{} {}, loading not counted ({})", plan.prediction,
                     seconds < kClock ? fmt::format("{:.3g} s", seconds)
                                      : render_seconds(seconds),
                     plan.measured);
}

/// ", 1.4 × the rows of the sequential run".
std::string compared_with_sequential(const PlanSummary& plan) {
  if (plan.sequential_rows <= 0) {
    return {};  // nothing is left to do
  }
  constexpr double kNearlyOne = 0.005;
  const double times = plan.forward_rows / plan.sequential_rows;
  return std::abs(times - 1) < kNearlyOne
             ? ", as the sequential run"
             : fmt::format(", {:.3g} × the rows of the sequential run", times);
}

void print_plan(const JobRequest& request, const RunOutputs& outputs,
                const PlanSummary& plan) {
  fmt::print("model      {} ({} blocks, latents {}{})\n", request.source.name(),
             request.source.num_blocks(),
             to_string(request.source.latent_shape()),
             request.source.decoder() ? ", decoded by a VAE" : "");
  fmt::print("images     {} (samples {}), {} already there\n", plan.images,
             config::to_string(request.samples), outputs.skipped.size());
  fmt::print("sampler    {}, {} steps, guidance {}\n",
             config::solver_label(request.schedule.options()),
             request.schedule.num_steps(), request.guidance_scale);
  fmt::print("method     {}\n", request.plan.method.kind->name);
  fmt::print("placement  {}, {}\n", describe_company(request),
             request.dtypes());
  for (const DevicePlan& gpu : plan.gpus) {
    fmt::print("device     {}: {} at once, {} needed, {} free: {}\n", gpu.name,
               counted(static_cast<std::uint64_t>(gpu.rows), "image"),
               human_bytes(gpu.memory_bytes),
               human_bytes(gpu.available_memory_bytes),
               verdict(gpu.memory_bytes, gpu.available_memory_bytes));
  }
  fmt::print("memory     {} needed, {} available: {} ({})\n",
             human_bytes(plan.memory_bytes),
             human_bytes(plan.available_memory_bytes),
             verdict(plan.memory_bytes, plan.available_memory_bytes),
             plan.memory_limit);
  fmt::print("cost       {}{:.0f} forward rows{}, {:.3g} TFLOP\n",
             plan.prediction == "about" ? "" : plan.prediction + " ",
             plan.forward_rows, compared_with_sequential(plan),
             plan.flops / 1e12);
  fmt::print("time       {}\n", time_text(plan));
}

}  // namespace

int run_dry(Invocation& invocation, const JobRequest& request,
            const RunOutputs& outputs) {
  PlanSummary plan =
      forecast(request, request.samples.size() - outputs.skipped.size(),
               outputs.pictures(), *invocation.stop);
  plan.memory_bytes = request.required_bytes;
  const MemoryInfo memory = memory_info();
  plan.available_memory_bytes = memory.available_bytes;
  plan.memory_limit = to_string(memory.binding());
  for (const JobDevice& device : request.devices) {
    if (device.is_gpu() && device.workers > 0) {
      plan.gpus.push_back({device.label(), device.workers, device.rows,
                           std::string(to_string(device.compute)),
                           device.required_bytes, device.available_bytes});
    }
  }
  RunSummary& summary = invocation.summary;
  summary.status = "planned";
  summary.plan = plan;
  invocation.take_last_word();
  if (invocation.config.json) {
    fmt::print("{}\n", to_json(summary));
  } else {
    print_plan(request, outputs, plan);
  }
  return 0;
}

}  // namespace troupe::actors

#include "actors/cli/explain.h"

#include <fmt/format.h>

#include "actors/cli/execution_class.h"
#include "config/enum_names.h"
#include "config/schedule_options.h"
#include "kernels/core/log.h"
#include "kernels/core/system.h"

namespace troupe::actors {
namespace {

/// Where the schedule came from, before flags changed it.
std::string schedule_source(const config::Config& config,
                            const JobRequest& request, bool from_image) {
  if (from_image) {
    return "the recipe of the image";
  }
  if (request.source.scheduler_config().empty()) {
    return "defaults, as the model has no scheduler_config.json";
  }
  return request.source.is_random()
             ? "what is bundled with " + request.source.name()
             : "the scheduler_config.json of " + config.model_dir;
}

std::string method_reason(const config::Config& config,
                          const JobRequest& request) {
  if (config.method.kind || !config.method.preset.empty()) {
    return "asked for";
  }
  return std::string(request.plan.method.kind->chosen_because);
}

}  // namespace

void explain(const config::Config& config, const JobRequest& request,
             bool from_image) {
  if (log_level() < LogLevel::info) {
    return;
  }
  const auto say = [](const std::string& text) {
    log_message(LogLevel::info, text);
  };
  say(fmt::format("sampler: {}, {} steps, {} model calls; from {}",
                  config::solver_label(request.schedule.options()),
                  request.schedule.num_steps(),
                  request.schedule.num_model_calls(),
                  schedule_source(config, request, from_image)));
  say(fmt::format(
      "guidance: {}, from {}", request.guidance_scale,
      config.guidance_scale ? config.place_of("guidance") : "the default"));
  say(fmt::format("method: {} on {} ({} cores usable): {}",
                  request.plan.method.kind->name, describe_company(request),
                  num_usable_cores(), method_reason(config, request)));
  for (const JobDevice& device : request.devices) {
    say(fmt::format(
        "arithmetic: {}{} by {}", to_string(device.compute),
        config.compute == config::ComputeType::automatic ? " (auto)" : "",
        device.is_gpu() ? device.architecture + ", " + bits_mode(device.options)
                        : selected_isa()));
    if (device.is_gpu()) {
      say(fmt::format("{}: up to {} images at once, {} needed, {} free",
                      to_string(device.device), device.rows,
                      human_bytes(device.required_bytes),
                      human_bytes(device.available_bytes)));
    }
  }
  const MemoryInfo memory = memory_info();
  say(fmt::format(
      "memory: {} needed, {} free ({})", human_bytes(request.required_bytes),
      human_bytes(memory.available_bytes), to_string(memory.binding())));
}

}  // namespace troupe::actors

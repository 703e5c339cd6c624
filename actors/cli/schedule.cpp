#include "samplers/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "actors/artefacts/svg_plot.h"
#include "actors/cli/converter.h"
#include "actors/cli/notes.h"
#include "actors/cli/verbs.h"
#include "config/schedule_options.h"
#include "kernels/core/atomic_file.h"
#include "kernels/core/error.h"
#include "models/checkpoint.h"

namespace troupe::actors {
namespace {

/// log of the signal-to-noise power ratio; infinite where a level vanishes.
double log_snr(const samplers::NoiseLevel& level) {
  return 2 * (std::log(level.alpha) - std::log(level.sigma));
}

samplers::ScheduleOptions options_of(const config::Config& config,
                                     std::vector<std::string>& notes) {
  std::string scheduler;
  std::string place = "scheduler_config.json";
  if (!config.model_dir.empty()) {
    const auto checkpoint =
        models::open_checkpoint(config.model_dir, {}, converter());
    scheduler = checkpoint.scheduler_config;
    place = scheduler_path(checkpoint);
    notes = scheduler_notes(checkpoint);
  }
  return config::schedule_options(config.sampler, scheduler, place);
}

void print_table(const samplers::Schedule& schedule) {
  fmt::print("{} with {} steps, {} model calls, initial deviation {:.6g}\n\n",
             config::solver_label(schedule.options()), schedule.num_steps(),
             schedule.num_model_calls(), schedule.init_noise_sigma());
  fmt::print("{:>5}  {:>12}  {:>12}  {:>12}  {:>9}\n", "call", "timestep",
             "sigma", "next sigma", "log SNR");
  for (int call = 0; call < schedule.num_model_calls(); ++call) {
    const auto index = static_cast<std::size_t>(call);
    fmt::print("{:>5}  {:>12.6g}  {:>12.6g}  {:>12.6g}  {:>9.3f}\n", call,
               schedule.timestep(call), schedule.sigmas()[index],
               schedule.sigmas()[index + 1], log_snr(schedule.level(call)));
  }
}

nlohmann::ordered_json to_json(const samplers::Schedule& schedule,
                               const std::vector<std::string>& notes) {
  return {{"schema", 1},
          {"verb", "schedule"},
          {"status", "done"},
          {"exit_code", 0},
          {"sampler", config::solver_label(schedule.options())},
          {"steps", schedule.num_steps()},
          {"model_calls", schedule.num_model_calls()},
          {"init_noise_sigma", schedule.init_noise_sigma()},
          {"is_stochastic", schedule.is_stochastic()},
          {"timesteps", schedule.timesteps()},
          {"sigmas", schedule.sigmas()},
          {"notes", notes}};
}

void plot(const samplers::Schedule& schedule, const std::string& path) {
  std::vector<double> snr;
  snr.reserve(static_cast<std::size_t>(schedule.num_model_calls()));
  for (int call = 0; call < schedule.num_model_calls(); ++call) {
    snr.push_back(log_snr(schedule.level(call)));
  }
  const std::vector<PlotSeries> series = {
      {"timestep", schedule.timesteps(), false},
      {"sigma", schedule.sigmas(), true},
      {"log SNR", snr, false}};
  const std::string svg = plot_svg(
      fmt::format("{}, {} steps", config::solver_label(schedule.options()),
                  schedule.num_steps()),
      series);
  write_file(path, std::as_bytes(std::span(svg)));
}

}  // namespace

int run_schedule(Invocation& invocation) {
  const config::Config& config = invocation.config;
  std::vector<std::string> notes;
  const samplers::Schedule schedule(options_of(config, notes));
  std::ranges::move(list_notes(config.sampler, schedule),
                    std::back_inserter(notes));
  print_notes(notes);
  if (!config.plot.empty()) {
    if (!config.plot.ends_with(".svg")) {
      throw Error(Errc::invalid_argument, "--plot",
                  "the plot is written as SVG: got '" + config.plot + "'",
                  "end the name in .svg");
    }
    check_writable(config.plot);
    plot(schedule, config.plot);
  }
  if (config.json) {
    fmt::print("{}\n", to_json(schedule, notes).dump());
  } else if (!config.quiet) {
    print_table(schedule);
  }
  return 0;
}

}  // namespace troupe::actors

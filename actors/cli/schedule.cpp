#include "samplers/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "actors/artefacts/svg_plot.h"
#include "actors/cli/json_fields.h"
#include "actors/cli/json_rows.h"
#include "actors/cli/model_source.h"
#include "actors/cli/notes.h"
#include "actors/cli/verbs.h"
#include "config/enum_names.h"
#include "config/load_config.h"
#include "config/schedule_options.h"
#include "kernels/core/error.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

/// log of the signal-to-noise power ratio: twice that of the amplitudes.
double log_power_snr(const samplers::NoiseLevel& level) {
  return 2 * level.log_snr();
}

/// The model whose noise schedule is shown; empty without --model.
struct Scheduler {
  std::string model;
  std::string text;
  std::string place = "scheduler_config.json";
  std::string pipeline;  ///< its class; empty: none
};

Scheduler scheduler_of(const config::Config& config,
                       std::vector<std::string>& notes) {
  Scheduler scheduler;
  if (config.model_dir.empty()) {
    return scheduler;
  }
  const models::Checkpoint checkpoint = open_folder(config.model_dir);
  scheduler.model = folder_name(config.model_dir);
  scheduler.text = checkpoint.scheduler_config;
  scheduler.place = scheduler_path(checkpoint);
  scheduler.pipeline = checkpoint.pipeline_class;
  check_scheduler(checkpoint, config.sampler);
  note_scheduler(checkpoint, notes);
  return scheduler;
}

/// One schedule for each sampler in --sampler; the other options hold for all
/// schedules.
/// Errors name the source that set an option that does not fit.
std::vector<samplers::Schedule> schedules_of(const config::Config& config,
                                             const Scheduler& scheduler,
                                             std::vector<std::string>& notes) {
  std::vector<std::string> names =
      config::parse_list(config.place_of("sampler"), config.sampler.name);
  if (names.empty()) {
    names.emplace_back();
  }
  std::vector<samplers::Schedule> schedules;
  for (const std::string& name : names) {
    config::SamplerConfig sampler = config.sampler;
    sampler.name = name;
    samplers::ScheduleOptions options;
    try {
      options = config::schedule_options(sampler, scheduler.text,
                                         scheduler.place, scheduler.pipeline);
    } catch (const Error& error) {
      throw config::at_its_source(config, error);
    }
    schedules.emplace_back(options);
    if (!scheduler.model.empty()) {
      note_model(sampler,
                 config::model_prediction(scheduler.text, scheduler.place),
                 options, notes);
    }
    check_lists(sampler, schedules.back());
    note_lists(sampler, schedules.back(), notes);
  }
  return schedules;
}

std::string label_of(const samplers::Schedule& schedule) {
  return config::solver_label(schedule.options());
}

void print_table(const samplers::Schedule& schedule) {
  fmt::print("{} with {} steps, {} model calls, initial deviation {:.6g}\n\n",
             label_of(schedule), schedule.num_steps(),
             schedule.num_model_calls(), schedule.init_noise_sigma());
  fmt::print("{:>5}  {:>12}  {:>12}  {:>12}  {:>9}\n", "call", "timestep",
             "sigma", "next sigma", "log SNR");
  for (int call = 0; call < schedule.num_model_calls(); ++call) {
    const auto index = static_cast<std::size_t>(call);
    fmt::print("{:>5}  {:>12.6g}  {:>12.6g}  {:>12.6g}  {:>9.3f}\n", call,
               schedule.timestep(call), schedule.sigmas()[index],
               schedule.sigmas()[index + 1],
               log_power_snr(schedule.level(call)));
  }
}

}  // namespace

// Named, so that visitors find the list.
void visit_fields(auto& visit, AnyConst<samplers::Schedule> auto& r) {
  visit({"sampler", "sampler as --sampler names it"}, label_of(r));
  visit({"steps", "denoising steps"}, r.num_steps());
  visit({"model_calls", "network calls of one image"}, r.num_model_calls());
  visit({"init_noise_sigma", "standard deviation of the first latents"},
        r.init_noise_sigma());
  visit({"is_stochastic", "whether steps draw noise"}, r.is_stochastic());
  visit({"timesteps", "timestep of each model call"}, r.table().timesteps);
  visit({"sigmas", "noise levels, one more than calls"}, r.table().sigmas);
}

template <>
samplers::Schedule example_of<samplers::Schedule>() {
  return samplers::Schedule(samplers::ScheduleOptions());
}

namespace {

struct ShownSchedules {
  std::vector<samplers::Schedule> schedules = {
      example_of<samplers::Schedule>()};
  std::vector<std::string> notes = {};
};

void visit_fields(auto& visit, AnyConst<ShownSchedules> auto& r) {
  if (r.schedules.size() == 1) {
    actors::visit_fields(visit, r.schedules.front());
  }
  visit({"schedules", "one per --sampler"}, r.schedules);
  visit({"notes", "what the user should know"}, r.notes);
}

/// "betas linear from 0.0001 to 0.02 over 1000 training steps".
std::string describe_levels(const samplers::ScheduleOptions& o) {
  std::string text;
  if (o.solver->levels == samplers::Levels::flow || o.use_flow_sigmas) {
    const bool is_flow = o.solver->levels == samplers::Levels::flow;
    text = o.use_dynamic_shifting
               ? fmt::format("flow path, dynamic shift exp({:g})",
                             o.mu.value_or(0))
               : fmt::format("flow path, shift {:g}",
                             is_flow ? o.shift : o.flow_shift);
  } else if (!o.trained_betas.empty()) {
    text = "betas as trained";
  } else if (o.beta_schedule == samplers::BetaSchedule::squaredcos_cap_v2 ||
             o.beta_schedule == samplers::BetaSchedule::laplace) {
    text = "betas " + config::name_of(o.beta_schedule);  // has no ends
  } else {
    text =
        fmt::format("betas {} from {:g} to {:g}",
                    config::name_of(o.beta_schedule), o.beta_start, o.beta_end);
  }
  if (o.rescale_betas_zero_snr) {
    text += ", rescaled to zero SNR";
  }
  return text + fmt::format(" over {} training steps", o.num_train_timesteps);
}

std::string subtitle_of(const std::vector<samplers::Schedule>& schedules,
                        const std::string& model) {
  std::vector<std::string> parts = {
      model.empty() ? "no model" : "model " + printable(model)};
  for (const samplers::Schedule& schedule : schedules) {
    std::string levels = describe_levels(schedule.options());
    if (std::ranges::find(parts, levels) == parts.end()) {
      parts.push_back(std::move(levels));
    }
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string steps_of(const samplers::Schedule& schedule) {
  const int steps = schedule.num_steps();
  const int calls = schedule.num_model_calls();
  return counted(steps, "step") +
         (calls == steps ? "" : fmt::format(", {} calls", calls));
}

Plot plot_of(const std::vector<samplers::Schedule>& schedules,
             const std::string& model) {
  PlotPanel timesteps{"network call", "timestep (training steps)", false, {}};
  PlotPanel sigmas{"network call, and the end",
                   "sigma (noise per unit of signal)",
                   true,
                   {}};
  PlotPanel snr{"network call",
                "log SNR (ln of signal power over noise power)",
                false,
                {}};
  Plot plot;
  for (const samplers::Schedule& schedule : schedules) {
    plot.legend.push_back(label_of(schedule) + ", " + steps_of(schedule));
    timesteps.lines.emplace_back(schedule.timesteps().begin(),
                                 schedule.timesteps().end());
    sigmas.lines.emplace_back(schedule.sigmas().begin(),
                              schedule.sigmas().end());
    std::vector<double>& ratios = snr.lines.emplace_back();
    for (int call = 0; call < schedule.num_model_calls(); ++call) {
      ratios.push_back(log_power_snr(schedule.level(call)));
    }
  }
  plot.title = schedules.size() == 1
                   ? plot.legend.front()
                   : fmt::format("{} schedules", schedules.size());
  plot.subtitle = subtitle_of(schedules, model);
  plot.panels = {std::move(timesteps), std::move(sigmas), std::move(snr)};
  return plot;
}

}  // namespace

std::vector<JsonField> schedule_json_fields() {
  return json_rows_of<ShownSchedules>();
}

int run_schedule(Invocation& invocation) {
  const config::Config& config = invocation.config;
  std::vector<std::string> notes;
  const Scheduler scheduler = scheduler_of(config, notes);
  const std::vector<samplers::Schedule> schedules =
      schedules_of(config, scheduler, notes);
  print_notes(notes);
  if (!config.plot.empty()) {
    if (!config.plot.ends_with(".svg")) {
      throw Error(Errc::invalid_argument, "--plot",
                  "the plot is written as SVG: got " + in_quotes(config.plot),
                  "end the name in .svg");
    }
    check_writable(config.plot);
    const std::string svg = plot_svg(plot_of(schedules, scheduler.model));
    write_file(config.plot, std::as_bytes(std::span(svg)));
  }
  invocation.take_last_word();
  if (config.json) {
    const ShownSchedules shown = {schedules, notes};
    fmt::print("{}\n", dump(document(invocation.summary, shown)));
  } else if (!config.quiet) {
    for (const samplers::Schedule& schedule : schedules) {
      fmt::print("{}", &schedule == &schedules.front() ? "" : "\n");
      print_table(schedule);
    }
  }
  return 0;
}

}  // namespace troupe::actors

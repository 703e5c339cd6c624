#include "actors/cli/bench_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <sstream>
#include <utility>

#include "actors/cli/job_layout.h"
#include "config/method_plan.h"
#include "config/option_table.h"

namespace troupe::actors {
namespace {

/// A setting, as it follows --method.
struct Setting {
  const char* text;
  bool is_rare = false;  ///< of --all alone
};

// The settings that are compared.
constexpr Setting kSettings[] = {
    {"cfg"},
    {"sequential+cache"},
    {"sequential+cache --cache-threshold 0.05"},
    {"picard+cache --window 4"},
    {"draft+cache --window 2"},
    {"picard --window 2"},
    {"picard --window 4"},
    {"picard --window 8"},
    {"taa --window 4"},
    {"taa --window 8"},
    {"draft --window 2"},
    {"draft --window 3"},
    {"draft --window 4"},
    {"draft --window 8"},
    {"draft --window 2 --anchor fresh"},
    {"chords --window 4"},
    {"chords --window 8"},
    {"parareal --window 4 --iterations 1"},
    {"parareal --window 4 --iterations 2"},
    {"stale --segments 2"},
    {"stale --segments 4"},
    {"stale --segments 2 --preset asyncdiff"},
    {"stale --segments 4 --preset asyncdiff"},
    {"draft --window 6", true},
    {"stale --segments 2 --preset asyncdiff2", true},
    {"pipeline --segments 2", true},
    {"picard --window 4 --accept settled --tolerance 0.1", true},
    {"picard --window 4 --accept settled --tolerance 0.05", true},
    {"picard --window 4 --accept settled --tolerance 0.01", true},
    {"picard --window 4 --accept settled --tolerance 0", true},
};

/// `config` with the method and its options that `text` names, for one picture.
config::Config config_of(const std::string& text, config::Config config) {
  std::istringstream words(text);
  std::string word;
  words >> word;
  config.methods.clear();
  config.method = {};
  config.method.kind = config::parse_method("--method", word);
  std::string value;
  while (words >> word >> value) {
    config::find_option(word.substr(2))->set(config, word, value);
  }
  config.samples.end = config.samples.begin + 1;
  config.samples_per_prompt = false;
  return config;
}

/// Whether the setting is one of this method; rare ones count with --all.
bool is_asked(const config::Config& config, const Setting& setting,
              samplers::MethodKind of) {
  const std::string_view text(setting.text);
  return (config.all_settings || !setting.is_rare) &&
         text.substr(0, text.find(' ')) == to_string(of);
}

/// The settings that `config` asks for. Errors: Errc::invalid_argument for a
/// method without any.
std::vector<std::string> settings_of(const config::Config& config) {
  std::vector<samplers::MethodKind> kinds = config::named_methods(config);
  const bool names_any = !kinds.empty();
  if (!names_any) {
    kinds.assign(samplers::method_table().begin(),
                 samplers::method_table().end());
  }
  std::vector<std::string> texts;
  for (const samplers::MethodKind kind : kinds) {
    const std::size_t before = texts.size();
    for (const Setting& setting : kSettings) {
      if (is_asked(config, setting, kind)) {
        texts.emplace_back(setting.text);
      }
    }
    require(!names_any || texts.size() > before ||
                kind == samplers::MethodKind::sequential,
            Errc::invalid_argument, config.place_of("method"),
            "no setting of " + to_string(kind) + " is compared on one picture" +
                (config.all_settings ? "" : " without --all"),
            "measure it with troupe bench, or leave it out");
  }
  return texts;
}

/// By one worker, the first; emulated by one device.
GridRow sequential_row(std::string name, RowRole role,
                       const config::Config& config,
                       const JobRequest& request) {
  GridRow row{.name = std::move(name),
              .role = role,
              .request = baseline_of(request, request.num_threads)};
  if (request.is_emulated) {
    row.machine = one_emulated_device(emulated_machine(config, request));
  }
  return row;
}

void add_fewer_steps(const config::Config& config, Grid& grid) {
  const bool is_stochastic = grid.all.schedule.is_stochastic();
  if (is_stochastic || !config.sampler.sigmas.empty() ||
      !config.sampler.timesteps.empty()) {
    grid.left_out.push_back({"fewer steps", grid.steps,
                             is_stochastic
                                 ? "each step draws noise of its own"
                                 : "the run has a list of noise levels"});
    return;
  }
  for (const int divisor : {2, 4}) {
    const int steps = (grid.steps + divisor - 1) / divisor;
    if (steps == grid.steps || (divisor == 4 && steps == 1)) {
      continue;
    }
    config::Config fewer = config_of("sequential", config);
    fewer.sampler.steps = steps;
    grid.rows.push_back(
        sequential_row(fmt::format("sequential --steps {}", steps),
                       RowRole::fewer_steps, fewer, make_request(fewer)));
  }
}

/// A picture for each worker.
void add_probes(const config::Config& config, const JobRequest& one,
                Grid& grid) {
  const int workers = config.num_workers.value_or(1);
  if (one.is_emulated || one.uses(DeviceKind::cuda) || workers == 1) {
    return;
  }
  for (const char* method : {"batch", "cfg"}) {
    config::Config probe = config_of(method, config);
    probe.samples.end =
        probe.samples.begin + static_cast<std::uint64_t>(workers);
    if ((*probe.method.kind)->splits_guidance && !one.job.guidance.is_on()) {
      continue;
    }
    grid.probes.push_back({.name = method, .request = make_request(probe)});
  }
}

}  // namespace

Grid make_grid(const config::Config& config) {
  const std::vector<std::string> settings = settings_of(config);
  config::Config sequential = config;
  sequential.methods.clear();
  sequential.method = {};
  sequential.method.kind = samplers::MethodKind::sequential;
  Grid grid{.all = make_request(sequential),
            .loaded = make_request(sequential)};
  grid.steps = grid.all.schedule.num_steps();
  const JobRequest one = make_request(config_of("sequential", config));
  grid.rows.push_back(
      sequential_row("sequential", RowRole::method, sequential, one));
  grid.rows.push_back(sequential_row("sequential, noise moved by 1e-6",
                                     RowRole::floor, sequential, one));
  add_fewer_steps(config, grid);
  add_probes(config, one, grid);
  sequential.samples = grid.all.samples();
  sequential.samples_per_prompt = false;
  for (const GridRow& probe : grid.probes) {
    sequential.samples.end =
        std::max(sequential.samples.end, probe.request.job.end);
  }
  grid.loaded = make_request(sequential);
  for (const std::string& setting : settings) {
    const config::Config said = config_of(setting, config);
    try {
      JobRequest request = make_request(said);
      emulation::Machine machine;
      if (request.is_emulated) {
        machine = emulated_machine(said, request);
      }
      grid.rows.push_back({.name = setting,
                           .request = std::move(request),
                           .machine = std::move(machine)});
    } catch (const Error& error) {
      if (error.code() != Errc::invalid_argument &&
          error.code() != Errc::unsupported) {
        throw;
      }
      grid.left_out.push_back({setting, grid.steps, error.message()});
    }
  }
  return grid;
}

}  // namespace troupe::actors

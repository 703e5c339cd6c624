#include "actors/cli/method_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "actors/artefacts/json_writer.h"
#include "actors/cli/forecast.h"
#include "actors/cli/job_request.h"
#include "actors/job_fields.h"
#include "config/schedule_options.h"
#include "kernels/core/context.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"
#include "samplers/parallel/method.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;
using samplers::MethodOptions;

/// Medians of fewer pictures say little.
constexpr std::uint64_t kLeastRuns = 8;

/// The table's figures of the job's sampling.
std::vector<const MethodFigure*> fitting(const MeasuredMethods& measured,
                                         const JobRequest& request) {
  std::vector<const MethodFigure*> found;
  if (request.job.ring_blocks) {
    return found;  // an error beside the method's
  }
  const FigureSetting setting = figure_setting(request);
  for (const MethodFigure& figure : measured.figures) {
    if (figure.setting == setting) {
      found.push_back(&figure);
    }
  }
  return found;
}

/// "methods.json has no figures of ddim, 30 steps, …, but of …".
std::string lack_of(const MeasuredMethods& measured,
                    const JobRequest& request) {
  if (!measured.lack.empty()) {
    return measured.lack;
  }
  const std::string wanted = to_string(figure_setting(request));
  std::vector<std::string> there;
  for (const MethodFigure& figure : measured.figures) {
    std::string one = to_string(figure.setting);
    if (one == wanted) {
      one += " with other options";
    }
    if (std::ranges::find(there, one) == there.end()) {
      there.push_back(std::move(one));
    }
  }
  constexpr std::size_t kShown = 4;
  const bool is_long = there.size() > kShown;
  there.resize(std::min(there.size(), kShown));
  return fmt::format(
      "{} has no figures of {}, but of {}{}", measured.place, wanted,
      there.empty() ? "nothing" : fmt::format("{}", fmt::join(there, "; ")),
      is_long ? "; …" : "");
}

/// "relative RMSE of latents 0.028 (median of 32 runs), 0.33 (worst)".
std::string error_of(const MethodFigure& figure) {
  return fmt::format(
      "relative RMSE of latents from the sequential run's {:.2g} (median of {} "
      "runs), {:.2g} (worst)",
      figure.relative_rmse_median, figure.runs, figure.relative_rmse_worst);
}

/// Workers that can share a sample: those of one kind of device.
int num_sharers(const config::PlanInputs& inputs, const config::Plan& plan) {
  config::WorkerCount all = inputs.others.value_or(config::WorkerCount{});
  for (std::size_t d = 0; d < inputs.devices.size() && !inputs.only_others;
       ++d) {
    const bool is_gpu = inputs.devices[d] != DeviceKind::cpu;
    (is_gpu ? all.gpu : all.cpu) += plan.device_workers[d];
  }
  return all.gpu > 0 ? all.gpu : all.cpu;
}

/// A plan of the job, and how long it takes.
struct Candidate {
  config::Plan plan;
  const MethodFigure* figure = nullptr;  ///< null: exact
  int workers = 1;
  double path = 0;  ///< network calls of a worker until the last sample
  double time = 0;  ///< the same in calls by one thread

  /// The best has the least. Equal counts differ by rounding.
  [[nodiscard]] std::pair<double, double> rank() const {
    return {std::round(time * 1e6),
            figure != nullptr ? figure->relative_rmse_median : 0.0};
  }
};

/// `method`: unset: that of config::make_plan.
Candidate candidate_of(const config::Config& config, config::PlanInputs inputs,
                       std::optional<MethodOptions> method,
                       const MethodFigure* figure) {
  inputs.method = std::move(method);
  Candidate one{.plan = config::make_plan(config, inputs), .figure = figure};
  one.workers = std::max(num_sharers(inputs, one.plan), 1);
  JobShape shape{.samples = inputs.num_samples,
                 .calls = inputs.num_calls,
                 .workers = one.workers,
                 .blocks = inputs.num_blocks,
                 .method = one.plan.method};
  if (figure != nullptr) {
    shape.measured = MeasuredCalls{figure->rounds, figure->nfe};
  }
  one.path = workload_of(shape).path;
  // Workers of one CPU share its cores.
  const bool shares_cores =
      !inputs.others &&
      std::ranges::all_of(inputs.devices, [](DeviceKind kind) {
        return kind == DeviceKind::cpu;
      });
  one.time = one.path / (shares_cores ? one.plan.num_threads : 1);
  return one;
}

/// Of the exact methods that "auto" ever takes.
Candidate best_exact(const config::Config& config,
                     const config::PlanInputs& inputs) {
  Candidate best = candidate_of(config, inputs, std::nullopt, nullptr);
  for (const samplers::MethodKind kind : samplers::method_table()) {
    if (kind->chosen_because.empty() ||
        (kind->splits_guidance && !inputs.is_guided)) {
      continue;
    }
    Candidate one =
        candidate_of(config, inputs, MethodOptions{.kind = kind}, nullptr);
    if (one.rank() < best.rank()) {
      best = std::move(one);
    }
  }
  return best;
}

/// Whether these workers can run the setting.
bool can_run(const MethodOptions& method, const config::PlanInputs& inputs,
             int workers) {
  const int parts = samplers::num_network_parts(method);
  const int most = method.cut == samplers::CutShape::onion
                       ? inputs.most_onion_parts
                       : inputs.num_blocks;
  return samplers::num_parts(method) <= workers && parts <= std::max(most, 1) &&
         (parts == 1 || !inputs.others);
}

void check_setting(const MeasuredMethods& measured, const MethodFigure& figure,
                   const samplers::Schedule& schedule) {
  try {
    (void)samplers::make_method(figure.method.options, schedule);
  } catch (const Error& error) {
    throw Error(Errc::corrupt_file, measured.place,
                figure.name + " cannot be: " + error.message(),
                "make the table anew with troupe bench methods --calibrate");
  }
}

std::string described(const Candidate& best, const Candidate& exact,
                      const MeasuredMethods& measured, double most,
                      const std::string& lack) {
  const std::string with =
      counted(static_cast<std::uint64_t>(best.workers), "worker");
  const std::string_view name = exact.plan.method.kind->name;
  if (best.figure != nullptr) {
    return fmt::format(
        "auto: {} on {}: {:.3g} network calls one after another instead of "
        "{:.3g} with {}; {}, at most {:g} is allowed: {} of {}",
        best.figure->name, with, best.path, exact.path, name,
        error_of(*best.figure), most, measured.place, best.figure->date);
  }
  return lack.empty()
             ? fmt::format(
                   "auto: {} on {}, which is exact: nothing within {:g} "
                   "ends sooner ({})",
                   name, with, most, measured.place)
             : fmt::format("auto: {} on {}, from exact methods only: {}", name,
                           with, lack);
}

}  // namespace

MeasuredMethods measured_methods(const config::Config& config,
                                 const ModelSource& source) {
  const bool is_named = !config.method_table.empty();
  if (!is_named && config.model_dir.empty()) {
    return {.lack = source.name() + " has no table of measured methods"};
  }
  const fs::path path = is_named ? fs::path(config.method_table)
                                 : fs::path(config.model_dir) / "methods.json";
  MeasuredMethods measured{.place = path.string()};
  std::error_code ignored;
  if (!is_named && !fs::exists(path, ignored)) {
    measured.lack = measured.place +
                    " is not there: troupe bench methods --calibrate makes it";
    return measured;
  }
  MethodFigures file = read_method_figures(path);
  ExecContext ctx(num_usable_cores());
  if (file.weights_xxh3 == to_hex(source.weights_hash(ctx))) {
    measured.figures = std::move(file.methods);
    return measured;
  }
  require(!is_named, Errc::invalid_argument, config.place_of("method-table"),
          measured.place + " was measured with other weights than those of " +
              source.name(),
          "make one with troupe bench methods --calibrate");
  measured.lack = measured.place + " was measured with other weights";
  return measured;
}

FigureSetting figure_setting(const JobRequest& request) {
  const std::string schedule = json_of(request.schedule.options()).dump();
  const auto picture = models::LatentGeometry::of(request.source.pixel_shape());
  return {.sampler = config::solver_label(request.schedule.options()),
          .schedule_xxh3 = to_hex(xxh3_64(std::as_bytes(std::span(schedule)))),
          .steps = request.schedule.num_steps(),
          .dtype = std::string(to_string(request.devices.front().compute)),
          .guidance = request.job.guidance,
          .size = config::to_string(
              config::PictureSize{picture.width, picture.height})};
}

MethodChoice choose_method(const config::Config& config,
                           const JobRequest& request,
                           const config::PlanInputs& inputs) {
  const MeasuredMethods& measured = request.measured.value();
  const double most = config.max_rmse.value();
  const Candidate exact = best_exact(config, inputs);
  Candidate best = exact;
  std::vector<const MethodFigure*> figures = fitting(measured, request);
  std::string lack = figures.empty() ? lack_of(measured, request) : "";
  std::erase_if(figures, [](const MethodFigure* figure) {
    const MethodOptions& method = figure->method.options;
    return figure->runs < kLeastRuns || !approximates(method) ||
           method.kind.has(samplers::Modifier::cache);
  });
  if (lack.empty() && figures.empty()) {
    lack = fmt::format(
        "{} has no approximate method that was measured on {} pictures",
        measured.place, kLeastRuns);
  }
  for (const MethodFigure* figure : figures) {
    if (figure->relative_rmse_median > most) {
      continue;
    }
    const MethodOptions& method = figure->method.options;
    check_setting(measured, *figure, request.schedule);
    Candidate one = candidate_of(config, inputs, method, figure);
    if (can_run(method, inputs, one.workers) && one.rank() < best.rank()) {
      best = std::move(one);
    }
  }
  std::string note = described(best, exact, measured, most, lack);
  return {std::move(best.plan.method), std::move(note)};
}

std::string error_note(const config::Config& config,
                       const JobRequest& request) {
  const MethodOptions& method = request.job.method;
  if (!approximates(method) || config.max_rmse ||
      !samplers::note_of(method).empty()) {
    return {};
  }
  const std::string name = to_string(method.kind);
  MeasuredMethods measured;
  try {
    measured = measured_methods(config, request.source);
  } catch (const Error& error) {
    if (!config.method_table.empty()) {
      throw;
    }
    measured.lack = error.what();
  }
  const auto figures = fitting(measured, request);
  const auto found =
      std::ranges::find_if(figures, [&](const MethodFigure* figure) {
        return is_same(figure->method.options, method);
      });
  if (found != figures.end()) {
    return fmt::format("{} approximates: {}, measured on this model", name,
                       error_of(**found));
  }
  return fmt::format(
      "{} approximates, and its error was not measured on this model: {}", name,
      figures.empty() ? lack_of(measured, request)
                      : measured.place + " has no figures of these options");
}

}  // namespace troupe::actors

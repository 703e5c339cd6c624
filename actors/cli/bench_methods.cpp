#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <utility>

#include "actors/artefacts/json_writer.h"
#include "actors/cli/bench_grid.h"
#include "actors/cli/bench_log.h"
#include "actors/cli/bench_measure.h"
#include "actors/cli/bench_report.h"
#include "actors/cli/bench_runs.h"
#include "actors/cli/execution_class.h"
#include "actors/cli/job_layout.h"
#include "actors/cli/json_fields.h"
#include "actors/cli/json_rows.h"
#include "actors/cli/method_choice.h"
#include "actors/cli/notes.h"
#include "actors/cli/picture_classifier.h"
#include "actors/cli/versions.h"
#include "actors/job_fields.h"
#include "config/method_plan.h"
#include "config/option_rows.h"
#include "config/schedule_options.h"
#include "kernels/core/hash.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

/// Where the bench writes.
struct BenchPaths {
  fs::path folder;
  fs::path figures;  ///< methods.json; empty: none
};

/// Refuses options that the grid sets by itself, and kinds of output that it
/// does not compare.
void check_bench_methods(const config::Config& config) {
  for (const config::Option& option : config::option_table()) {
    require(option.group != config::rows::kMethodGroup ||
                option.key == "method" || option.get(config).empty(),
            Errc::invalid_argument, config.place_of(std::string(option.key)),
            "bench methods has settings of its own",
            "leave it out, or measure one setting with troupe bench");
  }
  require(config.num_workers.value_or(0) > 0 || config.emulation.devices,
          Errc::invalid_argument, "--workers",
          "how many workers share a picture: got neither --workers nor "
          "--emulate",
          "give --workers N to measure here, or --emulate N to model devices");
  require(config.num_shards == 1, Errc::invalid_argument,
          config.place_of("shards"),
          "bench methods compares methods, without shards: got " +
              std::to_string(config.num_shards),
          "leave it out");
}

BenchPaths paths_of(const config::Config& config) {
  const std::string out = config.out.empty() ? "bench-methods" : config.out;
  BenchPaths paths{.folder = out, .figures = {}};
  if (!config.calibrate) {
    return paths;
  }
  if (out.ends_with(".json")) {
    paths.figures = out;
    paths.folder.replace_extension();
  } else {
    require(!config.model_dir.empty(), Errc::invalid_argument, "--calibrate",
            "the model has no folder for methods.json", "give --out FILE.json");
    paths.figures = fs::path(config.model_dir) / "methods.json";
  }
  return paths;
}

void prepare(const BenchPaths& paths) {
  std::error_code problem;
  fs::create_directories(paths.folder, problem);
  require(!problem, Errc::io, paths.folder.string(),
          "cannot be made: " + problem.message(),
          "name another folder with --out");
  check_writable_folder(paths.folder);
  if (!paths.figures.empty()) {
    check_writable(paths.figures);
  }
}

void write_text(const fs::path& path, const std::string& text) {
  write_file(path, std::as_bytes(std::span(text)));
}

/// A line for each member of the object, and for each element of its lists.
void write_json(const fs::path& path, const nlohmann::ordered_json& json) {
  const auto text_of = [](const nlohmann::ordered_json& value) {
    return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  std::vector<std::string> members;
  for (const auto& [key, value] : json.items()) {
    std::vector<std::string> elements;
    for (const nlohmann::ordered_json& element :
         value.is_array() ? value : nlohmann::ordered_json::array()) {
      elements.push_back(text_of(element));
    }
    members.push_back(
        text_of(key) + ": " +
        (elements.empty()
             ? text_of(value)
             : fmt::format("[\n  {}\n ]", fmt::join(elements, ",\n  "))));
  }
  write_text(path, fmt::format("{{\n {}\n}}\n", fmt::join(members, ",\n ")));
}

/// Four classes of a model that has more, and two pictures of each condition,
/// where nobody says otherwise.
void choose_pictures(config::Config& config) {
  const ModelSource source = ModelSource::open(config);
  const std::int64_t classes = source.info(DType::f32).num_classes;
  if (classes > 0 && config.classes.empty()) {
    const std::int64_t most = std::min<std::int64_t>(classes, 4);
    for (std::int64_t i = 0; i < most; ++i) {
      config.classes.push_back(std::to_string(i * classes / most));
    }
  }
  if (config.places.contains("samples")) {
    return;
  }
  constexpr std::uint64_t kSeeds = 2;
  constexpr std::uint64_t kWithoutConditions = 8;
  // A count is of each prompt.
  config.samples.end = classes > 0              ? kSeeds * config.classes.size()
                       : source.takes_prompts() ? kSeeds
                                                : kWithoutConditions;
}

std::string today() {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
}

std::string in_shell_quotes(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:=+";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
    return word;
  }
  std::string quoted = "'";
  for (const char c : word) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

std::string command_of(const Invocation& invocation) {
  std::string command = "troupe bench methods";
  for (const config::Setting& flag : invocation.sources.flags) {
    const config::Option* option = config::find_option(flag.key);
    command += " " + flag.place;
    if (!option->is_switch()) {
      command += " " + in_shell_quotes(flag.text);
    } else if (flag.text != "true") {
      command += "=" + flag.text;
    }
  }
  return command;
}

std::string machine_of(const JobRequest& request) {
  std::string text =
      fmt::format("{}, {}", cpu_model(), counted(num_usable_cores(), "core"));
  for (const JobDevice& device : request.devices) {
    if (device.is_gpu() && device.is_used()) {
      text += ", " + device.label();
    }
  }
  return text;
}

std::vector<std::string> conditions_of(const JobRequest& request) {
  if (!request.prompts.texts.empty()) {
    return request.prompts.texts;
  }
  std::vector<std::string> names;
  if (request.source.info(DType::f32).num_classes > 0) {
    for (const std::int64_t id : request.classes) {
      const std::string name = request.source.class_name(id);
      names.push_back(name.empty() ? std::to_string(id) : name);
    }
  }
  return names;
}

/// Workers of speed 1 that could do what the setting's workers do.
double capacity_of(const GridRow& row, int workers) {
  if (!row.request.is_emulated) {
    return workers;
  }
  std::vector<double> speeds = row.machine.speeds;
  std::ranges::sort(speeds, std::greater());
  speeds.resize(std::min(speeds.size(), static_cast<std::size_t>(workers)));
  return std::accumulate(speeds.begin(), speeds.end(), 0.0);
}

/// In dB; unset: equal.
std::optional<double> psnr_of(double mse) {
  return mse > 0 ? std::optional(10 * std::log10(255 * 255 / mse))
                 : std::nullopt;
}

template <typename Figure>
double median_over(const std::vector<SettingRun>& runs, const Figure& figure) {
  std::vector<double> values;
  std::ranges::transform(runs, std::back_inserter(values), figure);
  return median_of(std::move(values));
}

/// `nfe_of_sequential`: calls of the first row.
SettingRow figures_of(const Grid& grid, const GridRow& row,
                      const std::vector<SettingRun>& runs,
                      const std::vector<SettingRun>& predicted,
                      double nfe_of_sequential) {
  const JobRequest& request = row.request;
  const samplers::MethodOptions& method = request.job.method;
  const auto workers = static_cast<int>(std::min<std::uint64_t>(
      method.kind->useful_workers(method, 1),
      request.is_emulated ? row.machine.num_workers()
                          : static_cast<std::uint64_t>(request.num_workers())));
  std::vector<double> seconds;
  std::vector<double> speedups;
  std::vector<double> nfe;
  std::vector<double> rounds;
  std::vector<double> rmse;
  std::vector<double> mse;
  std::vector<double> ssim;
  std::vector<PassBar> passes;
  std::optional<Residuals> residuals;
  for (const SettingRun& run : runs) {
    seconds.push_back(run.seconds);
    speedups.push_back(run.sequential_seconds.value() / run.seconds);
    if (run.repeat == 0) {
      nfe.push_back(static_cast<double>(run.nfe));
      rounds.push_back(static_cast<double>(run.rounds));
      rmse.push_back(run.relative_rmse.value());
      mse.push_back(run.picture_mse.value());
      ssim.push_back(run.ssim.value());
    }
    if (run.passes) {
      passes = *run.passes;
      residuals = run.residuals;
    }
  }
  SettingRow figures{
      .name = row.name,
      .method = to_string(method.kind),
      .role = row.role,
      .is_emulated = request.is_emulated,
      .steps = grid.steps,
      .workers = workers,
      .runs = rmse.size(),
      .rounds = median_of(rounds),
      .nfe = median_of(nfe),
      .seconds = median_of(seconds),
      .speedup = median_of(speedups),
      .rmse = {median_of(rmse), std::ranges::max(rmse)},
      .psnr = {psnr_of(median_of(mse)), psnr_of(std::ranges::max(mse))},
      .ssim = {median_of(ssim), std::ranges::min(ssim)},
      .passes = std::move(passes),
      .residuals = std::move(residuals)};
  figures.nfe_ratio = figures.nfe / nfe_of_sequential;
  figures.efficiency = figures.speedup / workers;
  figures.bound = capacity_of(row, workers) / figures.nfe_ratio;
  // Measured times of equal work differ by some per cent.
  const bool is_modelled = request.is_emulated && row.machine.jitter == 0;
  figures.is_above_bound =
      figures.speedup > figures.bound * (is_modelled ? 1.001 : 1.1);
  if (!predicted.empty()) {
    figures.predicted_seconds =
        median_over(predicted, [](const SettingRun& r) { return r.seconds; });
    figures.predicted_off = *figures.predicted_seconds / figures.seconds - 1;
  }
  if (method.kind.takes("tolerance")) {
    figures.tolerance = method.tolerance;
  }
  return figures;
}

std::vector<std::vector<float>> features_of(std::span<const SettingRun> runs) {
  std::vector<std::vector<float>> features;
  for (const SettingRun& run : runs) {
    features.push_back(run.features.value());
  }
  return features;
}

/// Whether the classifier's labels are the classes that the pictures show.
bool knows_classes(const JobRequest& request,
                   const PictureClassifier& classifier) {
  return std::ranges::all_of(request.classes, [&](std::int64_t id) {
    return static_cast<std::size_t>(id) < classifier.labels().size() &&
           classifier.labels()[static_cast<std::size_t>(id)] ==
               request.source.class_name(id);
  });
}

/// Of one number of steps. `count`: pictures of each setting.
void judge_rows(const Grid& grid, const BenchLog& log, std::size_t count,
                const PictureClassifier& classifier,
                std::span<SettingRow> rows) {
  const bool has_labels = knows_classes(grid.all, classifier);
  const auto accuracy_of = [&](std::span<const SettingRun> runs) {
    const auto right = std::ranges::count_if(runs, [&](const SettingRun& run) {
      return run.label == grid.all.class_of(run.index);
    });
    return static_cast<double>(right) / static_cast<double>(count);
  };
  const std::string& sequential = grid.rows.front().name;
  const auto truth = log.of(grid.steps, sequential, kQualityRun);
  std::vector<std::vector<std::vector<float>>> sets;
  std::vector<double> accuracies;
  std::vector<double> distances;  // of each two sets
  for (std::size_t i = 0; i < kSeedSets; ++i) {
    const auto set = std::span(truth).subspan(i * count, count);
    sets.push_back(features_of(set));
    accuracies.push_back(accuracy_of(set));
    for (std::size_t other = 0; other < i; ++other) {
      distances.push_back(frechet_distance(sets[i], sets[other]));
    }
  }
  const Range chance = {std::ranges::min(distances),
                        std::ranges::max(distances)};
  for (SettingRow& row : rows) {
    const std::vector<SettingRun> all =
        log.of(grid.steps, row.name, kQualityRun);
    const auto runs = std::span(all).first(count);
    row.quality = QualityFigures{.pictures = count};
    if (has_labels) {
      row.quality->accuracy = accuracy_of(runs);
    }
    if (row.name == sequential) {
      row.quality->noise = "other";
      row.quality->frechet = median_of(distances);
      row.quality->frechet_range = chance;
      if (has_labels) {
        row.quality->accuracy_range = {std::ranges::min(accuracies),
                                       std::ranges::max(accuracies)};
      }
      continue;
    }
    const auto features = features_of(runs);
    std::vector<double> others;
    for (std::size_t i = 1; i < kSeedSets; ++i) {
      others.push_back(frechet_distance(features, sets[i]));
    }
    row.quality->noise = "paired";
    row.quality->frechet = frechet_distance(features, sets.front());
    row.quality->frechet_other = median_of(others);
    row.quality->is_within_chance = *row.quality->frechet_other <= chance.most;
  }
}

/// The classifier of --quality; null without it. Errors:
/// Errc::invalid_argument where the model has none that fits.
std::unique_ptr<PictureClassifier> classifier_of(const config::Config& config,
                                                 const JobRequest& request) {
  if (config.quality == 0) {
    return nullptr;
  }
  const std::string place = config.place_of("quality");
  const fs::path folder = fs::path(config.model_dir) / "classifier";
  std::error_code ignored;
  require(!config.model_dir.empty() && fs::is_directory(folder, ignored),
          Errc::invalid_argument, place,
          "the model's folder has no classifier/", "leave it out");
  require(request.prompts.empty(), Errc::invalid_argument, place,
          "the classifier judges classes, and the model takes prompts",
          "leave it out");
  auto classifier = std::make_unique<PictureClassifier>(folder);
  const auto picture = models::LatentGeometry::of(request.source.pixel_shape());
  require(picture.width == classifier->side() &&
              picture.height == classifier->side(),
          Errc::invalid_argument, place,
          fmt::format("the classifier takes pictures of {0}x{0}: got {1}x{2}",
                      classifier->side(), picture.width, picture.height),
          "leave it out, or leave --size out");
  const std::size_t num_classes =
      std::max<std::size_t>(request.classes.size(), 1);
  require(static_cast<std::size_t>(config.quality) % num_classes == 0,
          Errc::invalid_argument, place,
          fmt::format("every class has as many pictures: got {}, expected a "
                      "multiple of {}",
                      config.quality, num_classes),
          "choose another number");
  return classifier;
}

/// How well emulation predicts the settings of several workers; unset where
/// nothing was predicted.
std::optional<PredictionFigures> prediction_of(const std::vector<Grid>& grids,
                                               const BenchLog& log,
                                               const MethodsReport& report) {
  std::vector<double> off;
  for (const SettingRow& row : report.rows) {
    if (row.predicted_off && row.workers > 1) {
      off.push_back(std::abs(*row.predicted_off));
    }
  }
  if (off.empty()) {
    return std::nullopt;
  }
  std::vector<SettingRun> runs;
  for (const Grid& grid : grids) {
    std::ranges::move(log.of(grid.steps, grid.rows.front().name, kPredictedRun),
                      std::back_inserter(runs));
  }
  const auto of = [&runs](double MeasuredPace::*figure) {
    return median_over(
        runs, [figure](const SettingRun& run) { return (*run.pace).*figure; });
  };
  return PredictionFigures{
      .settings = off.size(),
      .off = {median_of(off), std::ranges::max(off)},
      .pace = {of(&MeasuredPace::row_ms), of(&MeasuredPace::row_slope),
               of(&MeasuredPace::solo_speed), of(&MeasuredPace::spread),
               of(&MeasuredPace::first_ms), of(&MeasuredPace::start_ms)}};
}

void fill_rows(const std::vector<Grid>& grids, const BenchLog& log,
               int num_judged, const PictureClassifier* classifier,
               MethodsReport& report) {
  for (const Grid& grid : grids) {
    const auto sequential = log.of(grid.steps, grid.rows.front().name);
    double floor = 0;
    const std::size_t first = report.rows.size();
    for (const GridRow& row : grid.rows) {
      const SettingRow& figures = report.rows.emplace_back(
          figures_of(grid, row, log.of(grid.steps, row.name),
                     log.of(grid.steps, row.name, kPredictedRun),
                     static_cast<double>(sequential.front().nfe)));
      if (row.role == RowRole::floor) {
        floor = figures.rmse.median;
      }
    }
    for (std::size_t i = first; i < report.rows.size() && floor > 0; ++i) {
      report.rows[i].over_floor = report.rows[i].rmse.median / floor;
    }
    if (classifier != nullptr) {
      judge_rows(grid, log, static_cast<std::size_t>(num_judged), *classifier,
                 std::span(report.rows).subspan(first));
    }
    report.left_out.insert(report.left_out.end(), grid.left_out.begin(),
                           grid.left_out.end());
  }
  report.prediction = prediction_of(grids, log, report);
  rank(report);
}

MethodsReport report_of(const Invocation& invocation,
                        const config::Config& config,
                        const std::vector<Grid>& grids,
                        const JobRunner& runner) {
  const JobRequest& all = grids.front().all;
  const auto picture = models::LatentGeometry::of(all.source.pixel_shape());
  MethodsReport report{
      .command = command_of(invocation),
      .date = today(),
      .sources = source_hash(),
      .machine = machine_of(all),
      .model = all.source.name(),
      .weights_xxh3 = to_hex(runner.weights_hash()),
      .execution_class = runner.execution_classes().front(),
      .sampler = config::solver_label(all.schedule.options()),
      .guidance = all.job.guidance.scale,
      .dtype = all.dtypes(),
      .size =
          config::to_string(config::PictureSize{picture.width, picture.height}),
      .company =
          all.is_emulated
              ? counted(static_cast<std::uint64_t>(*config.emulation.devices),
                        "modelled device")
              : describe_company(all),
      .conditions = conditions_of(all),
      .seed = all.job.seed,
      .first = all.job.begin,
      .samples = all.num_samples(),
      .repeats = all.is_emulated ? 1 : config.repeats};
  for (const Grid& grid : grids) {
    report.steps.push_back(grid.steps);
  }
  if (all.devices.front().is_gpu()) {
    report.bits = bits_mode(all.devices.front().options);
  }
  if (all.is_emulated) {
    report.emulated = emulated_machine(config, all);
  }
  return report;
}

/// What runs are of: all that they follow from.
nlohmann::ordered_json identity_of(const MethodsReport& report,
                                   const std::vector<Grid>& grids,
                                   const JobRunner& runner,
                                   const PictureClassifier* classifier) {
  nlohmann::ordered_json what = json_of(report);
  for (const char* key : {"command", "date", "rows", "left_out", "notes"}) {
    what.erase(key);
  }
  what["version"] = version();
  for (const Grid& grid : grids) {
    for (const GridRow& row : grid.rows) {
      // The record has also how pictures are decoded.
      what[fmt::format("job of {}, {} steps", row.name, grid.steps)] =
          to_hex(hash_of(runner.record(row.request)));
    }
  }
  if (classifier != nullptr) {
    what["classifier_xxh3"] = to_hex(classifier->hash());
  }
  return what;
}

std::vector<MethodFigure> calibrated(const MethodsReport& report,
                                     const std::vector<Grid>& grids) {
  std::vector<MethodFigure> figures;
  for (const SettingRow& row : report.rows) {
    if (row.role != RowRole::method) {
      continue;
    }
    const Grid& grid = *std::ranges::find(grids, row.steps, &Grid::steps);
    const GridRow& ran =
        *std::ranges::find(grid.rows, row.name, &GridRow::name);
    figures.push_back({.name = row.name,
                       .setting = figure_setting(ran.request),
                       .rounds = row.rounds,
                       .nfe = row.nfe,
                       .relative_rmse_median = row.rmse.median,
                       .relative_rmse_worst = row.rmse.worst,
                       .runs = row.runs,
                       .version = version(),
                       .sources = report.sources,
                       .date = report.date,
                       .method = {ran.request.job.method}});
  }
  return figures;
}

/// The table that figures of these weights are added to. One of other weights
/// is replaced. Errors: those of read_method_figures for another file.
MethodFigures table_at(const fs::path& path, const MethodsReport& report) {
  MethodFigures table;
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    table = read_method_figures(path);
  }
  if (table.weights_xxh3 != report.weights_xxh3) {
    table = {.model = report.model, .weights_xxh3 = report.weights_xxh3};
  }
  return table;
}

void write_report(const BenchPaths& paths, const MethodsReport& report,
                  const RunSummary& summary) {
  write_json(paths.folder / "results.json", document(summary, report));
  write_text(paths.folder / "report.html", report_html(report));
  for (const int steps : report.steps) {
    if (const std::string svg = front_svg(report, steps); !svg.empty()) {
      write_text(paths.folder / fmt::format("front-{}.svg", steps), svg);
    }
    write_text(paths.folder / fmt::format("passes-{}.svg", steps),
               passes_svg(report, steps));
    if (const std::string svg = residuals_svg(report, steps); !svg.empty()) {
      write_text(paths.folder / fmt::format("residuals-{}.svg", steps), svg);
    }
  }
  if (const std::string svg = tolerance_svg(report); !svg.empty()) {
    write_text(paths.folder / "tolerance.svg", svg);
  }
}

std::vector<Grid> grids_of(config::Config config) {
  std::vector<Grid> grids;
  const std::vector<int> counts = std::exchange(config.sampler.step_counts, {});
  if (counts.empty()) {
    grids.push_back(make_grid(config));
  }
  for (const int steps : counts) {
    config.sampler.steps = steps;
    require(std::ranges::find(grids, steps, &Grid::steps) == grids.end(),
            Errc::invalid_argument, config.place_of("steps"),
            fmt::format("got {} twice", steps), "leave one out");
    grids.push_back(make_grid(config));
  }
  return grids;
}

}  // namespace

std::vector<JsonField> bench_methods_json_fields() {
  return json_rows_of<MethodsReport>();
}

int bench_methods(Invocation& invocation) {
  check_bench_methods(invocation.config);
  const BenchPaths paths = paths_of(invocation.config);
  read_prompt_files(invocation.config);
  config::Config config = invocation.config;
  choose_pictures(config);
  const std::vector<Grid> grids = grids_of(config);
  const JobRequest& all = grids.front().all;
  const auto classifier = classifier_of(config, all);
  for (const Grid& grid : grids) {
    for (const GridRow& row : grid.rows) {
      if (classifier) {
        (void)on_all_cores(row.request);  // there is room for it
      }
    }
  }
  prepare(paths);
  std::vector<std::string> notes = all.notes;
  if (classifier && config.quality < classifier->num_features()) {
    notes.push_back(fmt::format(
        "--quality {} is below the classifier's {} features: Fréchet distances "
        "of so few pictures are compared with each other alone",
        config.quality, classifier->num_features()));
  }
  print_notes(notes);
  invocation.stop.emplace(*invocation.signals);
  const JobRunner runner(grids.front().loaded, *invocation.stop);
  MethodsReport report = report_of(invocation, config, grids, runner);
  report.notes = std::move(notes);
  MethodFigures table;
  if (!paths.figures.empty()) {
    table = table_at(paths.figures, report);
  }
  BenchLog log(paths.folder / "runs.jsonl",
               identity_of(report, grids, runner, classifier.get()));
  run_missing(invocation, grids, runner, log, report.repeats, classifier.get());
  fill_rows(grids, log, config.quality, classifier.get(), report);
  write_report(paths, report, invocation.summary);
  if (!paths.figures.empty()) {
    merge(calibrated(report, grids), table);
    write_json(paths.figures, json_of(table));
  }
  invocation.take_last_word();
  if (config.json) {
    fmt::print("{}\n", dump(document(invocation.summary, report)));
  } else {
    fmt::print("{}\n{}\n", ranked_table(report),
               (paths.folder / "report.html").string());
  }
  return 0;
}

}  // namespace troupe::actors

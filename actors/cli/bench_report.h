#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/cli/bench_log.h"
#include "actors/cli/bench_measure.h"
#include "kernels/core/fields.h"

namespace troupe::actors {

/// Median and worst of a figure over the pictures of a setting.
struct Spread {
  double median = 0;
  double worst = 0;
};

void visit_fields(auto& visit, AnyConst<Spread> auto& r) {
  visit({"median", "over the pictures"}, r.median);
  visit({"worst", "of them"}, r.worst);
}

/// The same in dB; unset where nothing differs.
struct DecibelSpread {
  std::optional<double> median = {};
  std::optional<double> worst = {};
};

void visit_fields(auto& visit, AnyConst<DecibelSpread> auto& r) {
  visit(or_null({"median",
                 "of the median of the mean square errors; null: that is 0"}),
        r.median);
  visit(or_null({"worst", "of them; null: all pictures are equal"}), r.worst);
}

/// The least and the most of a figure.
struct Range {
  double least = 0;
  double most = 0;
};

void visit_fields(auto& visit, AnyConst<Range> auto& r) {
  visit({"least", "of them"}, r.least);
  visit({"most", "of them"}, r.most);
}

/// Pictures of a setting as a classifier sees them.
struct QualityFigures {
  std::uint64_t pictures = 0;
  std::string noise = {};
  std::optional<double> accuracy = {};
  std::optional<Range> accuracy_range = {};
  double frechet = 0;
  std::optional<Range> frechet_range = {};
  std::optional<double> frechet_other = {};
  std::optional<bool> is_within_chance = {};
};

void visit_fields(auto& visit, AnyConst<QualityFigures> auto& r) {
  visit({"pictures", "that were judged"}, r.pictures);
  visit({"noise",
         "paired: that of the pictures that they are compared with; other: "
         "of the sequential run"},
        r.noise);
  visit({"accuracy",
         "share whose class the classifier names first; absent where the job "
         "has classes that it does not know"},
        r.accuracy);
  visit({"accuracy_range", "of the sequential run: of its five seed sets"},
        r.accuracy_range);
  visit({"frechet_distance",
         "in the classifier's features, from the sequential run's pictures of "
         "the same noise; of the sequential run: the median of the distances "
         "between two of its five seed sets"},
        r.frechet);
  visit({"frechet_range", "of the sequential run: of these distances"},
        r.frechet_range);
  visit({"frechet_other",
         "the same from the sequential run's sets of other noise, median; "
         "absent of the sequential run"},
        r.frechet_other);
  visit({"within_chance",
         "true: frechet_other is no larger than the largest distance between "
         "two seed sets; absent of the sequential run"},
        r.is_within_chance);
}

/// What a row of the bench is beside a method's setting.
enum class RowRole : std::uint8_t { method, fewer_steps, floor };
constexpr const char* list_of(RowRole) { return "method fewer_steps floor"; }

/// A setting of a method over all pictures.
struct SettingRow {
  std::string name = {};  ///< as it follows --method
  std::string method = {};
  RowRole role = RowRole::method;
  bool is_emulated = false;
  int steps = 0;           ///< of the sequential run that it is compared with
  int workers = 0;         ///< that the setting can use
  std::uint64_t runs = 0;  ///< pictures
  double rounds = 0;
  double nfe = 0;
  double nfe_ratio = 0;
  double seconds = 0;
  double speedup = 0;
  double efficiency = 0;
  double bound = 0;
  bool is_above_bound = false;
  Spread rmse = {};
  std::optional<double> over_floor = {};
  DecibelSpread psnr = {};
  Spread ssim = {};
  bool is_on_front = false;
  std::optional<double> predicted_seconds = {};
  std::optional<double> predicted_off = {};
  std::optional<double> tolerance = {};  ///< of picard and taa
  std::optional<QualityFigures> quality = {};
  // Of the first picture.
  std::vector<PassBar> passes = {};
  std::optional<Residuals> residuals = {};
};

void visit_fields(auto& visit, AnyConst<SettingRow> auto& r) {
  visit({"name", "setting, as it follows --method"}, r.name);
  visit({"method", "parallel method"}, r.method);
  visit({"role",
         "method, fewer_steps (the sequential run of fewer steps), or floor "
         "(the sequential run whose initial noise is moved by 1e-6)"},
        r.role);
  visit({"emulated", "true: times are modelled; else absent"},
        r.is_emulated ? std::optional(true) : std::nullopt);
  visit({"steps", "denoising steps of the run that it is compared with"},
        r.steps);
  visit({"workers", "that the setting can use"}, r.workers);
  visit({"runs", "pictures"}, r.runs);
  visit({"rounds", "network calls one after another, median"}, r.rounds);
  visit({"nfe", "network calls of a picture, median"}, r.nfe);
  visit({"nfe_ratio", "the same by the sequential run's"}, r.nfe_ratio);
  visit({"seconds", "of a picture without decoding, median"}, r.seconds);
  visit({"speedup",
         "seconds of the sequential run in the same process by these, median "
         "over runs of the same picture"},
        r.speedup);
  visit({"efficiency", "speedup by workers"}, r.efficiency);
  visit({"bound",
         "the largest speedup that this number of network calls leaves: "
         "workers / nfe_ratio, each as fast as it is"},
        r.bound);
  visit({"above_bound",
         "true: the speedup is more than a tenth above it (modelled without "
         "jitter: a thousandth), a bug of the program or of the measurement"},
        r.is_above_bound);
  visit({"relative_rmse", "of latents from the sequential run's"}, r.rmse);
  visit(or_null({"over_floor", "its median by the floor's; null: that is 0"}),
        r.over_floor);
  visit({"psnr_db", "of 8-bit pictures"}, r.psnr);
  visit({"ssim", "of 8-bit pictures; 1: equal"}, r.ssim);
  visit({"on_front", "no other row is both as fast and as near"},
        r.is_on_front);
  visit(
      {"predicted_seconds",
       "of a measured row, by the emulation of its workers; absent elsewhere"},
      r.predicted_seconds);
  visit({"predicted_off", "predicted_seconds by seconds, less 1"},
        r.predicted_off);
  visit({"tolerance", "of picard and taa; absent elsewhere"}, r.tolerance);
  visit({"residuals",
         "of picard and taa, of the first picture: for each step the residuals "
         "of its sweeps, in their order: root mean square of what a sweep "
         "changes, divided by the accept rule's scale; absent elsewhere",
         "array of arrays of numbers"},
        r.residuals);
  visit({"quality", "of --quality; absent without it"}, r.quality);
}

/// How well emulation predicts measured settings.
struct PredictionFigures {
  std::size_t settings = 0;
  Spread off = {};
  MeasuredPace pace = {};
};

void visit_fields(auto& visit, AnyConst<PredictionFigures> auto& r) {
  visit({"settings", "of several workers"}, r.settings);
  visit({"median_off", "of the sizes of their predicted_off"}, r.off.median);
  visit({"worst_off", "the largest of them"}, r.off.worst);
  visit_fields(visit, r.pace);
}

/// A setting that was not run.
struct LeftOut {
  std::string name;
  int steps = 0;
  std::string reason;
};

void visit_fields(auto& visit, AnyConst<LeftOut> auto& r) {
  visit({"name", "setting"}, r.name);
  visit({"steps", "denoising steps"}, r.steps);
  visit({"reason", "why it was not run"}, r.reason);
}

/// What `bench methods` has measured, on what.
struct MethodsReport {
  std::string command = {};
  std::string date = {};
  std::string sources = {};
  std::string machine = {};
  std::string model = {};
  std::string weights_xxh3 = {};
  std::string execution_class = {};
  std::string sampler = {};
  std::vector<int> steps = {};
  double guidance = 1;
  std::string dtype = {};
  std::string bits = {};
  std::string size = {};
  std::string company = {};
  std::vector<std::string> conditions = {};  ///< classes or prompts
  std::uint64_t seed = 0;
  std::uint64_t first = 0;    ///< global index of the first picture
  std::uint64_t samples = 0;  ///< pictures of each setting
  int repeats = 1;
  std::optional<emulation::Machine> emulated = {};
  std::optional<PredictionFigures> prediction = {};  ///< of measured rows
  std::vector<SettingRow> rows = {};  ///< by steps; the fastest first
  std::vector<LeftOut> left_out = {};
  std::vector<std::string> notes = {};
};

void visit_fields(auto& visit, AnyConst<MethodsReport> auto& r) {
  visit({"command", "command line, with the options of flags alone"},
        r.command);
  visit({"date", "year-month-day"}, r.date);
  visit({"sources", "hash of the program's sources: troupe --version"},
        r.sources);
  visit({"machine", "processor, cores and devices"}, r.machine);
  visit({"model", "folder name or bundled name"}, r.model);
  visit({"weights_xxh3", "XXH3-64 of weights and configuration"},
        r.weights_xxh3);
  visit({"execution_class", "of the exact methods"}, r.execution_class);
  visit({"sampler", "sampler as --sampler names it"}, r.sampler);
  visit({"steps", "denoising steps that were compared"}, r.steps);
  visit({"guidance", "classifier-free guidance; 1: none"}, r.guidance);
  visit({"dtype", "f32, bf16, f16; several with commas"}, r.dtype);
  visit(if_any({"bits", "of GPUs: invariant or free, +tf32; absent on CPUs"}),
        r.bits);
  visit({"size", "of a picture, in pixels"}, r.size);
  visit({"company", "workers of a picture, or modelled devices"}, r.company);
  visit({"conditions", "classes or prompts, which the pictures have in turn"},
        r.conditions);
  visit({"seed", "seed of the pictures"}, r.seed);
  visit({"first", "global index of the first picture"}, r.first);
  visit({"samples", "pictures of each setting"}, r.samples);
  visit({"repeats", "runs of each picture; the median counts"}, r.repeats);
  visit({"emulated", "the modelled machine of --emulate, or absent"},
        r.emulated);
  visit({"prediction",
         "how well emulation predicts measured rows; absent elsewhere"},
        r.prediction);
  visit({"rows", "settings by steps, the fastest first"}, r.rows);
  visit({"left_out", "settings that were not run, with the reason"},
        r.left_out);
  visit({"notes", "what the user should know"}, r.notes);
}

/// Sorts the rows, the fastest of each number of steps first, and marks those
/// on the front: no other row, but for the floor, is as fast and as near.
void rank(MethodsReport& report);

/// The table for a terminal, a line for each row.
[[nodiscard]] std::string ranked_table(const MethodsReport& report);

/// Error against speed-up, for one number of steps. Exact rows are not drawn:
/// the axis is logarithmic. Empty: there is nothing to draw.
[[nodiscard]] std::string front_svg(const MethodsReport& report, int steps);

/// Rounds of picard against its tolerance, a line for each number of steps.
/// Empty: fewer than two tolerances.
[[nodiscard]] std::string tolerance_svg(const MethodsReport& report);

/// The passes of the first picture, a lane for each worker: of the sequential
/// run, the settings on the front and the two of lowest efficiency.
[[nodiscard]] std::string passes_svg(const MethodsReport& report, int steps);

/// The residuals of the first picture divided by the tolerance, for each
/// setting of a converging method: steps to the right, sweeps downwards. Empty:
/// there is no such setting; one of tolerance 0 does not count.
[[nodiscard]] std::string residuals_svg(const MethodsReport& report, int steps);

/// One page without scripts and outer files.
[[nodiscard]] std::string report_html(const MethodsReport& report);

}  // namespace troupe::actors

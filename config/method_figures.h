#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/core/fields.h"
#include "samplers/options.h"

namespace troupe::config {

/// What one setting of a method costs and how far its latents are from the
/// sequential run's, of one sample. It holds no times: these are a machine's.
struct MethodFigure {
  std::string sampler;  ///< as --sampler names it
  int steps = 1;        ///< denoising steps
  std::string dtype;    ///< "f32", "bf16" or "f16"; several with commas
  double guidance = 1;  ///< 1: none
  std::string size;     ///< of the picture in pixels, "512x384"
  samplers::MethodOptions method;
  double rounds = 0;                ///< network calls one after another, median
  double nfe = 0;                   ///< network calls, median
  double relative_rmse_median = 0;  ///< ‖a − b‖ / ‖b‖ of the latents
  double relative_rmse_worst = 0;
  int runs = 0;  ///< samples that these are medians of
};

/// As samplers::visit_schedule; without the method.
template <typename Visitor, typename Figure>
void visit_figure(Visitor& visit, Figure& f) {
  using Key = FieldKey;
  visit(Key{"sampler", "sampler as --sampler names it"}, f.sampler);
  visit(Key{"steps", "denoising steps"}, f.steps);
  visit(Key{"dtype", "f32, bf16, f16; several with commas"}, f.dtype);
  visit(Key{"guidance", "classifier-free guidance; 1: none"}, f.guidance);
  visit(Key{"size", "of the picture in pixels: 512x384"}, f.size);
  visit(Key{"rounds", "network calls one after another, median"}, f.rounds);
  visit(Key{"nfe", "network calls of a picture, median"}, f.nfe);
  visit(Key{"relative_rmse_median", "of latents from the sequential run's"},
        f.relative_rmse_median);
  visit(Key{"relative_rmse_worst", "the largest of them"},
        f.relative_rmse_worst);
  visit(Key{"runs", "pictures that were drawn"}, f.runs);
}

/// The file methods.json: what `troupe bench methods --calibrate` has found out
/// about one model.
struct MethodFigures {
  std::string version;       ///< of Troupe
  std::string sources;       ///< source_hash()
  std::string date;          ///< "2026-11-29"
  std::string model;         ///< folder name or bundled name
  std::string weights_xxh3;  ///< 16 hexadecimal digits
  std::vector<MethodFigure> methods;
};

/// As visit_figure.
template <typename Visitor, typename Figures>
void visit_figures(Visitor& visit, Figures& f) {
  using Key = FieldKey;
  visit(Key{"version", "version of Troupe that measured"}, f.version);
  visit(Key{"sources", "hash of its sources: troupe --version"}, f.sources);
  visit(Key{"date", "year-month-day"}, f.date);
  visit(Key{"model", "folder name or bundled name"}, f.model);
  visit(Key{"weights_xxh3", "XXH3-64 of weights and configuration"},
        f.weights_xxh3);
}

/// Changes when an old reader would misread a new file.
inline constexpr int kFiguresSchema = 1;

/// JSON, one line for each figure. A method's options stand under "method" as
/// in a recipe.
[[nodiscard]] std::string to_json(const MethodFigures& figures);

/// Reads a file of unknown origin: at most 4 MiB and 32 levels; every value is
/// checked for type and range; unknown keys are ignored. Errors:
/// Errc::corrupt_file naming `place`, the entry and the key.
[[nodiscard]] MethodFigures parse_method_figures(const std::string& place,
                                                 std::string_view text);
/// Errors: also those of troupe::read_file.
[[nodiscard]] MethodFigures read_method_figures(
    const std::filesystem::path& path);

}  // namespace troupe::config

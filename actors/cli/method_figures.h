#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "actors/record_fields.h"
#include "kernels/core/fields.h"
#include "samplers/guidance.h"
#include "samplers/option_fields.h"
#include "samplers/options.h"

namespace troupe::actors {

/// How pictures are sampled: figures of one setting say nothing of others.
struct FigureSetting {
  std::string sampler = {};
  std::string schedule_xxh3 = {};
  int steps = 1;
  std::string dtype = {};
  samplers::Guidance guidance = {};
  std::string size = {};

  friend bool operator==(const FigureSetting&, const FigureSetting&) = default;
};

void visit_fields(auto& visit, AnyConst<FigureSetting> auto& r) {
  visit({"sampler", "sampler as --sampler names it"}, r.sampler);
  visit({"schedule_xxh3", "of all options of the noise schedule"},
        r.schedule_xxh3);
  visit({"steps", "denoising steps"}, r.steps);
  visit({"dtype", "f32, bf16, f16; several with commas"}, r.dtype);
  samplers::visit_guidance(visit, r.guidance);
  visit({"size", "of the picture in pixels: 512x384"}, r.size);
}

/// "ddim, 20 steps, bf16, guidance 4, 64x64".
[[nodiscard]] std::string to_string(const FigureSetting& setting);

/// Without the graph.
struct FigureMethod {
  samplers::MethodOptions options = {};
};

void visit_fields(auto& visit, AnyConst<FigureMethod> auto& r) {
  samplers::visit_method(visit, r.options);
}

[[nodiscard]] bool is_same(const samplers::MethodOptions& a,
                           const samplers::MethodOptions& b);

/// What a method with its options costs and how far its latents are from the
/// sequential run's, of one sample. It holds no times: these are a machine's.
struct MethodFigure {
  std::string name = {};
  FigureSetting setting = {};
  double rounds = 0;
  double nfe = 0;
  // A file that lacks them is no table.
  double relative_rmse_median = std::numeric_limits<double>::infinity();
  double relative_rmse_worst = std::numeric_limits<double>::infinity();
  std::uint64_t runs = 0;
  std::string version = {};
  std::string sources = {};
  std::string date = {};
  FigureMethod method = {};
};

void visit_fields(auto& visit, AnyConst<MethodFigure> auto& r) {
  visit({"name", "the method and its options, as they follow --method"},
        r.name);
  visit_fields(visit, r.setting);
  visit({"rounds", "network calls one after another, median"}, r.rounds);
  visit({"nfe", "network calls of a picture, median"}, r.nfe);
  visit({"relative_rmse_median", "of latents from the sequential run's"},
        r.relative_rmse_median);
  visit({"relative_rmse_worst", "the largest of them"}, r.relative_rmse_worst);
  visit({"runs", "pictures that were drawn"}, r.runs);
  visit({"version", "version of Troupe that measured"}, r.version);
  visit({"sources", "hash of its sources: troupe --version"}, r.sources);
  visit({"date", "year-month-day"}, r.date);
  visit({"method", "the same options, as in a recipe"}, r.method);
}

/// The file methods.json: what `bench methods --calibrate` has found out about
/// one model.
struct MethodFigures {
  int schema = 1;
  std::string model = {};
  std::string weights_xxh3 = {};
  std::vector<MethodFigure> methods = {};
};

void visit_fields(auto& visit, AnyConst<MethodFigures> auto& r) {
  visit({"schema", "1; changes when an old reader would misread it"}, r.schema);
  visit({"model", "folder name or bundled name"}, r.model);
  visit({"weights_xxh3", "XXH3-64 of weights and configuration"},
        r.weights_xxh3);
  visit({"methods", "one for each setting and method"}, r.methods);
}

/// Errors: those of read_file; Errc::corrupt_file for what is not such a file.
[[nodiscard]] MethodFigures read_method_figures(
    const std::filesystem::path& path);

/// Adds figures to a file's. They replace figures of the same setting and
/// method, and those of the same setting and name: an older program may have
/// measured these with other defaults.
void merge(const std::vector<MethodFigure>& newer, MethodFigures& file);

}  // namespace troupe::actors

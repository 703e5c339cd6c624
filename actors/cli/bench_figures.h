#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/record_fields.h"
#include "kernels/core/fields.h"
#include "samplers/option_fields.h"

namespace troupe::actors {

/// Without the graph.
struct FigureMethod {
  samplers::MethodOptions options = {};
};

void visit_fields(auto& visit, AnyConst<FigureMethod> auto& r) {
  samplers::visit_method(visit, r.options);
}

/// What one setting of a method costs and how far its latents are from the
/// sequential run's, of one sample. It holds no times: these are a machine's.
struct MethodFigure {
  std::string sampler = {};
  std::uint64_t schedule_xxh3 = 0;
  int steps = 1;
  std::string dtype = {};
  double guidance = 1;
  std::string size = {};
  double rounds = 0;
  double nfe = 0;
  double relative_rmse_median = 0;
  double relative_rmse_worst = 0;
  std::uint64_t runs = 0;
  FigureMethod method = {};
};

void visit_fields(auto& visit, AnyConst<MethodFigure> auto& r) {
  visit({"sampler", "sampler as --sampler names it"}, r.sampler);
  visit(hash_key({"schedule_xxh3", "of all options of the noise schedule"}),
        r.schedule_xxh3);
  visit({"steps", "denoising steps"}, r.steps);
  visit({"dtype", "f32, bf16, f16; several with commas"}, r.dtype);
  visit({"guidance", "classifier-free guidance; 1: none"}, r.guidance);
  visit({"size", "of the picture in pixels: 512x384"}, r.size);
  visit({"rounds", "network calls one after another, median"}, r.rounds);
  visit({"nfe", "network calls of a picture, median"}, r.nfe);
  visit({"relative_rmse_median", "of latents from the sequential run's"},
        r.relative_rmse_median);
  visit({"relative_rmse_worst", "the largest of them"}, r.relative_rmse_worst);
  visit({"runs", "pictures that were drawn"}, r.runs);
  visit({"method", "the setting, as in a recipe"}, r.method);
}

/// The file methods.json: what `bench methods --calibrate` has found out about
/// one model.
struct MethodFigures {
  int schema = 1;
  std::string version = {};
  std::string sources = {};
  std::string date = {};
  std::string model = {};
  std::string weights_xxh3 = {};
  std::vector<MethodFigure> methods = {};
};

void visit_fields(auto& visit, AnyConst<MethodFigures> auto& r) {
  visit({"schema", "1; changes when an old reader would misread it"}, r.schema);
  visit({"version", "version of Troupe that measured"}, r.version);
  visit({"sources", "hash of its sources: troupe --version"}, r.sources);
  visit({"date", "year-month-day"}, r.date);
  visit({"model", "folder name or bundled name"}, r.model);
  visit({"weights_xxh3", "XXH3-64 of weights and configuration"},
        r.weights_xxh3);
  visit({"methods", "one for each setting"}, r.methods);
}

}  // namespace troupe::actors

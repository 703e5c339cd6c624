#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/denoiser_evaluator.h"
#include "actors/network_cuts.h"
#include "actors/worker_traits.h"

namespace troupe::actors {

/// A shared pointer to what a test owns and keeps alive itself.
template <typename T>
std::shared_ptr<T> unowned(T& value) {
  return {std::shared_ptr<void>(), &value};
}

/// `num_workers` alike on the CPU.
inline std::vector<WorkerTraits> cpu_workers(int num_workers, int threads = 1,
                                             int max_rows = 0) {
  return std::vector<WorkerTraits>(
      static_cast<std::size_t>(num_workers),
      WorkerTraits{.max_rows = max_rows, .threads = threads});
}

/// A model that a test owns, without a decoder.
inline std::vector<DeviceModel> loaded(const models::Denoiser& denoiser,
                                       const Device& device = {}) {
  return {{.device = device, .model = {.denoiser = unowned(denoiser)}}};
}

/// Sample i has class i modulo `classes`; guided by "no class".
inline EvaluatorOptions class_options(const models::DenoiserInfo& info,
                                      double guidance_scale,
                                      std::int64_t classes, int segments = 1) {
  EvaluatorOptions options;
  options.job.guidance.scale = guidance_scale;
  const auto extents = info.latent_shape.extents();
  options.job.latent_shape.assign(extents.begin(), extents.end());
  options.job.cuts = balanced_cuts(
      info, {.kind = samplers::MethodKind::pipeline, .num_segments = segments});
  for (std::int64_t label = 0; label < classes; ++label) {
    options.conditions.emplace_back(label);
  }
  if (info.num_classes > 0) {
    options.unconditional.emplace_back(info.num_classes);
  }
  options.job.conditions.resize(options.conditions.size());
  options.job.unconditional.resize(options.unconditional.size());
  options.job.end = options.conditions.size();
  return options;
}

}  // namespace troupe::actors

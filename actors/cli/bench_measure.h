#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "actors/runtime.h"

namespace troupe::actors {

/// Keeps the latents of a measured run.
struct LatentsObserver final : Observer {
  void on_sample(const SampleOutcome& outcome) override {
    latents[outcome.report.sample_index] = outcome.latents;
  }

  std::map<std::uint64_t, Tensor> latents;
};

/// Errors: what a measured run failed with.
void check_measured(const JobResult& result);

/// ‖a − b‖ / ‖b‖ over all samples.
[[nodiscard]] double relative_rmse(const std::map<std::uint64_t, Tensor>& a,
                                   const std::map<std::uint64_t, Tensor>& b);

/// XXH3-64 of all latents' bytes, by index: what `sample` calls latents_xxh3.
[[nodiscard]] std::string latents_xxh3(
    const std::map<std::uint64_t, Tensor>& latents);

}  // namespace troupe::actors

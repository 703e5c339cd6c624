#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "actors/cli/job_request.h"
#include "actors/cli/signals.h"
#include "actors/denoiser_evaluator.h"
#include "actors/runtime.h"

namespace troupe::actors {

/// The hash of a model's weights and configuration, read from its files without
/// keeping them. Errors: as JobRunner.
[[nodiscard]] std::uint64_t read_weights_hash(const ModelSource& source,
                                              StopFlag& stop);

/// A request with its weights in memory: what a job runs on, as often as
/// wanted.
class JobRunner {
 public:
  /// Loads the weights with all cores. Keeps a reference to `request`.
  /// Errors: Errc::interrupted, Errc::terminated on a signal meanwhile.
  JobRunner(const JobRequest& request, StopFlag& stop);

  [[nodiscard]] const LoadedModel& model() const noexcept { return model_; }
  [[nodiscard]] double load_seconds() const noexcept { return load_seconds_; }
  [[nodiscard]] const std::string& execution_class() const noexcept {
    return execution_class_;
  }
  /// The recipe of an image of this job, hash of the latents included.
  [[nodiscard]] config::Recipe recipe_of(std::uint64_t index,
                                         const Tensor& latents) const;
  /// Latents [C, H, W] to pixels [3, H', W'].
  void decode(ExecContext& ctx, const Tensor& latents, Tensor& pixels) const;

  struct Options {
    std::vector<Observer*> observers;
    const std::atomic<bool>* stop = nullptr;
    std::vector<std::uint64_t> skip;
    bool decode = true;
    int preview_every = 0;
    bool trajectory = false;
    bool trace = false;
    /// Layout to use instead of the request's (bench's baselines).
    const config::Plan* plan = nullptr;
  };
  [[nodiscard]] JobResult run(const Options& options) const;

 private:
  const JobRequest& request_;
  LoadedModel model_;
  double load_seconds_ = 0;
  std::string execution_class_;
};

}  // namespace troupe::actors

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/cli/job_encoding.h"
#include "actors/cli/job_request.h"
#include "actors/cli/signals.h"
#include "actors/job_classes.h"
#include "actors/job_parts.h"
#include "actors/runtime.h"
#include "actors/session.h"

namespace troupe::actors {

/// The hash of a model's weights and configuration, read from its files without
/// keeping them. Errors: as JobRunner.
[[nodiscard]] std::uint64_t read_weights_hash(const ModelSource& source,
                                              StopFlag& stop);

/// A request with its weights in memory, once on each of its devices: what a
/// job runs on, as often as wanted.
class JobRunner {
 public:
  /// Encodes the prompts, here or elsewhere, lets the encoders go, and loads
  /// the weights, with all cores. Keeps a reference to `request`. A GPU that
  /// fails meanwhile is left out if others remain: see `lost`. Errors:
  /// Errc::interrupted, Errc::terminated on a signal meanwhile; those of the
  /// last device.
  JobRunner(const JobRequest& request, StopFlag& stop,
            const Elsewhere& elsewhere = {});

  [[nodiscard]] std::uint64_t weights_hash() const noexcept {
    return models_.front().model.weights_hash;
  }
  [[nodiscard]] double load_seconds() const noexcept { return load_seconds_; }
  /// What encoded the prompts.
  [[nodiscard]] const EncodedBy& encoded_by() const noexcept {
    return conditions_.encoded_by;
  }
  /// Seconds that prompts took; 0 where there are none.
  [[nodiscard]] double encode_seconds() const noexcept {
    return conditions_.encode_seconds;
  }
  /// The names of the classes of its own devices, by number.
  [[nodiscard]] const std::vector<std::string>& execution_classes()
      const noexcept {
    return execution_classes_;
  }
  /// The classes of its own devices, and new classes of processes that join.
  [[nodiscard]] JobClasses& classes() const noexcept { return *classes_; }
  /// Devices that failed while they were loaded.
  [[nodiscard]] const std::vector<LostDevice>& lost() const noexcept {
    return lost_;
  }
  /// The recipe of an image of this job, hash of the latents included, computed
  /// by workers of a class.
  [[nodiscard]] config::Recipe recipe_of(std::uint64_t index,
                                         const Tensor& latents,
                                         int execution_class = 0) const;
  /// Latents [C, H, W] to pixels [3, H', W'] with the weights of ctx's device;
  /// each may be there or on the host.
  void decode(ExecContext& ctx, const Tensor& latents, Tensor& pixels) const;
  /// One that can decode: of the CPU if that has the model, else of a GPU.
  [[nodiscard]] std::unique_ptr<ExecContext> make_decode_context() const;

  /// The model on each device.
  [[nodiscard]] const std::vector<DeviceModel>& models() const noexcept {
    return models_;
  }
  /// Where the request's workers run, on devices that did not fail.
  [[nodiscard]] std::vector<WorkerTraits> workers() const {
    return workers(request_);
  }
  /// The job as it is offered to joining processes, and the values that its
  /// record names.
  [[nodiscard]] Offer offer() const;
  [[nodiscard]] JobValues values() const;

  /// The record of another layout's job: see job_of.
  [[nodiscard]] JobRecord record(const JobRequest& request) const;
  /// The job to run: parts, samples and workers follow from the request; all
  /// else is taken from `spec`.
  [[nodiscard]] JobSpec job_of(JobSpec spec) const;
  /// The same with another layout (bench's rows): `request` is of the same job
  /// but for the method, and uses no device that the runner's request does not.
  [[nodiscard]] JobSpec job_of(JobSpec spec, const JobRequest& request) const;
  /// Runs the job.
  [[nodiscard]] JobResult run(JobSpec spec) const;

 private:
  [[nodiscard]] std::vector<WorkerTraits> workers(
      const JobRequest& request) const;
  void encode_prompts(StopFlag& stop, const Elsewhere& elsewhere);
  void load(const JobDevice& device, StopFlag& stop);

  const JobRequest& request_;
  std::vector<DeviceModel> models_;  ///< in the order of the request's devices
  std::vector<LostDevice> lost_;
  JobConditions conditions_;
  double load_seconds_ = 0;
  std::vector<std::string> execution_classes_;  ///< by number
  std::unique_ptr<JobClasses> classes_;
};

}  // namespace troupe::actors

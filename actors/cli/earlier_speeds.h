#pragma once

#include <string>

#include "actors/cli/job_runner.h"
#include "actors/cli/speed_cache.h"

namespace troupe::actors {

/// How fast the workers of a job were in earlier jobs (--cache). Tasks are
/// placed by it; it changes no byte. Thread: any, but for `keep`.
class EarlierSpeeds {
 public:
  /// Keeps a reference to `runner`. Knows nothing without --cache, and nothing
  /// of pipelines: their workers do parts of rows.
  /// `method`: of the job, which need not be the request's (bench).
  EarlierSpeeds(const config::Config& config, const JobRequest& request,
                const samplers::MethodOptions& method, const JobRunner& runner);

  /// Gives the job's own workers their earlier speeds.
  void begin(JobSpec& job) const;
  /// Of a worker of a class, with a device of this name (DeviceMeans); 0: not
  /// known.
  [[nodiscard]] double row_seconds(const std::string& execution_class,
                                   const std::string& device,
                                   int threads) const;
  /// Stores the speeds that the job measured, for later jobs.
  void keep(const JobResult& result) const;

 private:
  [[nodiscard]] std::string name_of(const std::string& execution_class,
                                    const std::string& device,
                                    int threads) const;

  const JobRunner& runner_;
  SpeedCache cache_;
  std::string model_;  ///< and what else a row's time follows from
};

}  // namespace troupe::actors

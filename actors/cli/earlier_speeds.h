#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "actors/cli/job_runner.h"

namespace troupe::actors {

/// How long a row took in earlier jobs, in one small file of a folder:
///
///   DIR/speeds.json
///
/// It is read once, by the constructor. Several processes may use one folder:
/// the file is replaced as a whole, by one at a time. Thread: any.
class SpeedCache {
 public:
  /// Seconds of a row, by what they follow from.
  using Speeds = std::map<std::string, double>;
  /// The most that are kept; the oldest go first. Of longer names nothing is
  /// kept.
  static constexpr std::size_t kMostSpeeds = 1000;
  static constexpr std::size_t kLongestName = 400;

  /// An empty folder: nothing is known, nothing is kept. A file that is damaged
  /// or not ours is a line in the log, and as none.
  explicit SpeedCache(const std::filesystem::path& folder);

  /// 0: not known.
  [[nodiscard]] double find(const std::string& name) const;
  /// Adds them to what is in the file by now. A file that cannot be written is
  /// a line in the log: the next job does not need it.
  void keep(const Speeds& measured) const;
  [[nodiscard]] bool is_on() const noexcept { return !folder_.empty(); }
  [[nodiscard]] std::filesystem::path path() const;

 private:
  /// Errors: those of write_file.
  void add(const Speeds& measured) const;

  std::filesystem::path folder_;
  Speeds known_;
};

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

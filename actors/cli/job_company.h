#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "actors/artefacts/summary.h"
#include "actors/artefacts/trace_writer.h"
#include "actors/cli/earlier_speeds.h"
#include "actors/cli/job_runner.h"
#include "actors/job_status.h"
#include "actors/remote/company_listener.h"

namespace troupe::actors {

/// Keeps a job's newest progress for those who ask. Thread: any.
class JobWatch final : public Observer {
 public:
  /// begin: what is known before the first report.
  JobWatch(JobProgress begin, TimePoint start)
      : progress_(std::move(begin)), start_(start) {}

  void on_progress(const JobProgress& progress) override {
    const std::lock_guard lock(mutex_);
    progress_ = progress;
  }

  [[nodiscard]] JobProgress progress() const {
    const std::lock_guard lock(mutex_);
    return progress_;
  }
  [[nodiscard]] double elapsed_seconds() const {
    return std::chrono::duration<double>(SteadyClock().now() - start_).count();
  }

 private:
  mutable std::mutex mutex_;
  JobProgress progress_;
  TimePoint start_;
};

/// Who computes a job: the workers of this process and, with --listen, those of
/// the processes that come. It says how the job stands, with --listen to
/// clients too.
class JobCompany {
 public:
  /// Keeps references. Listens from now on, and says where on stderr.
  /// `cancel` as ClientServiceSpec::cancel. Errors: those of CompanyListener
  /// and of net::read_keys.
  JobCompany(const config::Config& config, const JobRequest& request,
             const JobRunner& runner, const JobSpec& spec,
             std::function<void(const std::string& by)> cancel);

  /// Once. Errors: as run_job.
  [[nodiscard]] JobResult run();
  /// How the job stands. Thread: any.
  [[nodiscard]] JobStatus status() const;
  /// Fills in the processes with their work, and the bytes that links carried.
  void describe(const JobResult& result, RunSummary& summary) const;
  /// All that ever were there, for a trace.
  [[nodiscard]] std::vector<TraceProcess> traced() const;

 private:
  /// All processes. `at_work`: with the work of those that have workers.
  [[nodiscard]] std::vector<Process> nodes(
      std::span<const Process> at_work) const;

  [[nodiscard]] double speed_of_member(const ClassRecord& of,
                                       const std::string& device,
                                       int threads) const;

  const JobRequest& request_;
  const JobRunner& runner_;
  JobSpec spec_;
  EarlierSpeeds speeds_;
  JobWatch watch_;
  std::unique_ptr<ClientService> clients_;
  /// The listener once it is there: its thread asks before its constructor has
  /// returned.
  std::atomic<const CompanyListener*> listening_ = nullptr;
  std::unique_ptr<CompanyListener> listener_;
};

}  // namespace troupe::actors

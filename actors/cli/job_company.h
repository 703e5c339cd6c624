#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "actors/artefacts/summary.h"
#include "actors/artefacts/trace_writer.h"
#include "actors/cli/earlier_speeds.h"
#include "actors/cli/job_runner.h"
#include "actors/cli/job_watch.h"
#include "actors/job_status.h"
#include "actors/remote/company_listener.h"

namespace troupe::actors {

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
  [[nodiscard]] std::vector<NodeStatus> nodes(
      std::span<const ProcessFigures> figures, const char* still_here) const;

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

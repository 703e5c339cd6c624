#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/artefacts/summary.h"
#include "actors/cli/job_runner.h"
#include "actors/remote/company_listener.h"

namespace troupe::actors {

/// Who computes a job: the workers of this process and, with --listen, those of
/// the processes that come.
class JobCompany {
 public:
  /// Keeps references. Listens from now on, and says where on stderr. Errors:
  /// those of CompanyListener and of net::read_keys.
  JobCompany(const config::Config& config, const JobRequest& request,
             const JobRunner& runner, const JobSpec& spec);

  /// Once. Errors: as run_job.
  [[nodiscard]] JobResult run();
  /// Who did what, and the bytes that links took.
  void describe(const JobResult& result, RunSummary& summary) const;

 private:
  [[nodiscard]] std::vector<NodeStatus> nodes(
      std::span<const ProcessFigures> figures) const;

  const JobRunner& runner_;
  JobSpec spec_;
  std::unique_ptr<CompanyListener> listener_;
};

}  // namespace troupe::actors

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "actors/job_status.h"
#include "config/config.h"

namespace troupe::actors {

/// The figures of a job for Prometheus, as text at http://ADDR/metrics. The
/// text is made for each request: the job's own threads do nothing for it.
/// Thread: any.
class JobMetrics {
 public:
  /// Listens from now on. `address` is "PORT" (of 127.0.0.1) or "HOST:PORT",
  /// with an IP address as host; port 0 is any free one. `place` names the
  /// option. Errors: Errc::invalid_argument for what is no such address, and
  /// where the system does not let us listen.
  JobMetrics(const std::string& address, const std::string& place);
  ~JobMetrics();
  JobMetrics(const JobMetrics&) = delete;
  JobMetrics& operator=(const JobMetrics&) = delete;

  /// "127.0.0.1:9464", with the port that was found.
  [[nodiscard]] const std::string& address() const noexcept;
  /// Sets the source of figures; empty: none. Waits for answers that are being
  /// made from the last source.
  void show(std::function<JobStatus()> source);

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

/// While it lives metrics show a job; from then on its last figures.
class ShownJob {
 public:
  /// metrics: null: nothing happens. `source` is called until this ends.
  ShownJob(JobMetrics* metrics, std::function<JobStatus()> source);
  ~ShownJob();
  ShownJob(const ShownJob&) = delete;
  ShownJob& operator=(const ShownJob&) = delete;

 private:
  JobMetrics* metrics_;
  std::function<JobStatus()> source_;
};

/// Listens where --metrics says, and says so on stderr; null without it, and
/// where nothing is computed. Errors: those of JobMetrics.
[[nodiscard]] std::unique_ptr<JobMetrics> make_metrics(
    const config::Config& config);

}  // namespace troupe::actors

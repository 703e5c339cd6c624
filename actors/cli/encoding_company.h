#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/cli/job_encoding.h"
#include "actors/cli/job_request.h"
#include "actors/cli/signals.h"
#include "actors/job_status.h"
#include "actors/remote/encoding_listener.h"
#include "config/config.h"

namespace troupe::actors {

/// The processes that come to a job before it begins. The job waits for them
/// (--wait-workers), --method auto counts their workers, or one process is to
/// encode the prompts. Any other job lets nobody in before it
/// begins. All who have come wait while the first process reads its model. Then
/// they find the job at the same address. Thread: one.
class EncodingCompany {
 public:
  /// Keeps references. Listens from now on if processes are waited for or
  /// counted, and says so on stderr. `cancel` as ClientServiceSpec::cancel.
  /// Errors: those of EncodingListener.
  EncodingCompany(const config::Config& config, const JobRequest& request,
                  StopFlag& stop,
                  std::function<void(const std::string& by)> cancel);
  ~EncodingCompany();
  EncodingCompany(const EncodingCompany&) = delete;
  EncodingCompany& operator=(const EncodingCompany&) = delete;

  /// What lets a worker encode; empty if this process does. Errors of the call:
  /// Errc::invalid_argument for more texts than a message holds; those of
  /// EncodingListener and of the encoders' files; Errc::interrupted after a
  /// signal.
  [[nodiscard]] Elsewhere elsewhere();
  /// Waits for as many as are asked for, and says on stderr how many have come.
  /// The workers that are here then. Errors: Errc::interrupted,
  /// Errc::terminated or Errc::cancelled after a signal.
  [[nodiscard]] config::WorkerCount gather();
  /// Frees the address: `config` has the port that was found, if any was.
  void dismiss(config::Config& config);

 private:
  [[nodiscard]] bool needs_one() const;
  [[nodiscard]] bool waits_with(std::size_t here) const;
  [[nodiscard]] std::string awaited() const;
  void listen(const std::string& why);
  void tell(const std::string& what) const;
  [[nodiscard]] EncodedElsewhere encode(const EncodingRecord& record,
                                        PromptEncoders encoders);
  /// How the job stands. Thread: any.
  [[nodiscard]] JobStatus status() const;

  const config::Config& config_;
  const JobRequest& request_;
  StopFlag& stop_;
  ClientService clients_;
  const TimePoint begun_;
  std::optional<TimePoint> deadline_;  ///< of --wait-workers
  std::atomic<bool> gathers_ = false;
  /// The listener once it is there: its thread asks before its constructor has
  /// returned.
  std::atomic<const EncodingListener*> listening_ = nullptr;
  std::unique_ptr<EncodingListener> listener_;
};

}  // namespace troupe::actors

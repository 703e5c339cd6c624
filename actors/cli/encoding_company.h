#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "actors/cli/job_encoding.h"
#include "actors/cli/job_request.h"
#include "actors/cli/signals.h"
#include "actors/job_status.h"
#include "actors/remote/encoding_listener.h"
#include "config/config.h"

namespace troupe::actors {

/// The workers' processes that come before the job begins, if one of them is to
/// encode the prompts. It listens from the first text to encode until
/// `dismiss`: the processes wait while the first process reads its model. Then
/// they find the job at the same address.
/// Thread: one.
class EncodingCompany {
 public:
  /// Keeps references. `cancel` as ClientServiceSpec::cancel.
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
  /// Frees the address: `config` has the port that was found, if any was.
  void dismiss(config::Config& config);

 private:
  [[nodiscard]] EncodedElsewhere encode(const EncodingRecord& record,
                                        PromptEncoders encoders);
  /// How the job stands. Thread: any.
  [[nodiscard]] JobStatus status() const;

  const config::Config& config_;
  const JobRequest& request_;
  StopFlag& stop_;
  ClientService clients_;
  const TimePoint begun_;
  /// The listener once it is there: its thread asks before its constructor has
  /// returned.
  std::atomic<const EncodingListener*> listening_ = nullptr;
  std::unique_ptr<EncodingListener> listener_;
};

}  // namespace troupe::actors

#pragma once

#include <filesystem>
#include <functional>
#include <utility>

#include "actors/cli/model_fetching.h"
#include "actors/job_record.h"
#include "actors/remote/model_hosts.h"

namespace troupe::actors {

/// Copies of models of other hosts' jobs, each in a folder named by the hash of
/// its weights and configurations:
///
///   DIR/<hash>/…       whole
///   DIR/<hash>.part/…  as far as it was fetched: the next one goes on there
///   DIR/<hash>.lock    held while somebody writes or removes
///
/// Several processes may use one folder: one of them fetches, the others wait.
/// Thread: one.
class ModelCache {
 public:
  explicit ModelCache(std::filesystem::path folder)
      : folder_(std::move(folder)) {}

  /// Fetches the model unless it is there; returns its folder. The caller reads
  /// the model, and then checks that it is the job's. With FetchFrom::anyone
  /// this process also serves its chunks to others: ModelHosts::give_model.
  /// Errors: Errc::unreachable if the host does not give it; Errc::no_space
  /// before the first byte, if it cannot fit; Errc::io; Errc::corrupt_file for
  /// a list of files that makes no sense; those of `calls.check`.
  [[nodiscard]] std::filesystem::path fetch(const ModelRecord& model,
                                            ModelHosts& hosts, FetchFrom from,
                                            const FetchCalls& calls) const;
  /// Removes the copy, because its content does not match its name. Errors:
  /// Errc::io; those of `check`.
  void remove(const ModelRecord& model,
              const std::function<void()>& check) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace troupe::actors

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <utility>

#include "actors/job_record.h"
#include "actors/remote/model_hosts.h"

namespace troupe::actors {

/// The processes that are asked for a model.
enum class FetchFrom : std::uint8_t {
  anyone,         ///< who has files of it; and it gives what has come
  first_process,  ///< nobody else
};

/// How far a model has come, in bytes.
struct FetchProgress {
  std::uint64_t there = 0;
  std::uint64_t total = 0;
  std::uint64_t from_workers = 0;  ///< of what was fetched now
};

/// What a caller of the cache hears and says while it waits.
struct FetchCalls {
  /// Called once a second, and at the end.
  std::function<void(const FetchProgress&)> progress;
  /// Called every 50 ms of waiting; an error that it throws ends the waiting.
  std::function<void()> check;
  /// Called once, where another process of this host has the cache's model
  /// locked for longer than a moment.
  std::function<void()> waits;
};

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

#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "actors/job_record.h"
#include "actors/remote/model_files.h"
#include "net/link.h"

namespace troupe::actors {

/// Copies of models of other hosts' jobs, each in a folder that is named by
/// what its weights and configurations hash to:
///
///   DIR/<hash>/…       whole
///   DIR/<hash>.part/…  as far as it was fetched: the next one goes on from
///   here DIR/<hash>.lock    held while somebody writes or removes
///
/// Several processes may use one folder: one of them fetches, the others wait.
/// Thread: one.
class ModelCache {
 public:
  /// Asks the host that has the model: CompanyMember::ask.
  using Ask = std::function<std::future<net::Fetched>(std::string key,
                                                      std::size_t most_bytes)>;
  /// Hears how many bytes of how many are there, after each of a file.
  using Progress = std::function<void(std::uint64_t, std::uint64_t)>;

  /// Called every 50 ms of waiting; an error that it throws ends the waiting.
  using Check = std::function<void()>;

  explicit ModelCache(std::filesystem::path folder)
      : folder_(std::move(folder)) {}

  /// Where the model is, once it is there. Whether it is the job's is for the
  /// caller to see, who reads it anyway.
  /// Errors: Errc::unreachable if the host does not give it; Errc::no_space
  /// before the first byte, if it cannot fit; Errc::io; Errc::corrupt_file for
  /// a list of files that makes no sense; those of `check`.
  [[nodiscard]] std::filesystem::path fetch(const ModelRecord& model,
                                            const Ask& ask,
                                            const Progress& progress,
                                            const Check& check) const;
  /// Removes the copy: it is not what its name says. Errors: Errc::io; those of
  /// `check`.
  void remove(const ModelRecord& model, const Check& check) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace troupe::actors

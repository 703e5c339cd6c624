#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "config/config.h"

namespace troupe::actors {

/// Where the images of a run go: one file, or a file per sample from a folder
/// or a pattern. Nothing is ever renamed silently.
class OutputPaths {
 public:
  /// `out` is FILE.png for one sample; a folder ("00042.png" inside) or a
  /// pattern with {index} or {index:05} for any number.
  /// Errors: Errc::invalid_argument with what to write instead.
  OutputPaths(const std::string& out, const config::SampleRange& samples);

  [[nodiscard]] std::filesystem::path path(std::uint64_t index) const;
  /// The folder all files go to; created by `prepare`.
  [[nodiscard]] std::filesystem::path folder() const;
  /// Makes the folder (its parent must exist) and tries to write there.
  /// Errors: Errc::io.
  void prepare() const;

 private:
  std::string before_;  ///< text around the index; the whole path if none
  std::string after_;
  int width_ = 0;
  bool has_index_ = false;
};

}  // namespace troupe::actors

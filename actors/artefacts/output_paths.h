#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "config/config.h"
#include "kernels/core/atomic_file.h"

namespace troupe::actors {

/// A folder that a run made: removed with the object if nothing is in it, so
/// that a run that comes to nothing leaves nothing. Thread: one.
class NewFolder {
 public:
  explicit NewFolder(std::filesystem::path folder);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

 private:
  std::filesystem::path folder_;
};

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
  /// Returns the folder if it is new, else null. Errors: Errc::io.
  [[nodiscard]] std::unique_ptr<NewFolder> prepare() const;
  /// Writes a file under `path(index)`, whole or not at all. The folder is made
  /// anew if another run of the same folder, having come to nothing, took it
  /// away. Errors: those of write_file.
  void write(std::uint64_t index, std::span<const std::byte> bytes,
             IfThere if_there = IfThere::replace) const;

 private:
  std::string before_;  ///< text around the index; the whole path if none
  std::string after_;
  int width_ = 0;
  bool has_index_ = false;
};

}  // namespace troupe::actors

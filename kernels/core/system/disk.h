#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "kernels/core/system/atomic_file.h"

namespace troupe {

/// Port: where files become durable. AtomicFile's steps are separate calls
/// here, so that many files can share one sync of their folder.
/// Thread: any, several at once. A File: one at a time.
class Disk {
 public:
  /// A whole file under a temporary name. Unless it is published, nothing stays
  /// behind.
  class File {
   public:
    virtual ~File() = default;
    /// Errors: those of AtomicFile::sync.
    virtual void sync() = 0;
    /// Gives it its name. After `sync`. Errors: those of
    /// AtomicFile::try_publish.
    [[nodiscard]] virtual bool try_publish() = 0;
    /// The folder of the file. The name is durable after `sync_folder` of it.
    [[nodiscard]] virtual std::filesystem::path folder() const = 0;
  };

  virtual ~Disk() = default;
  /// Writes `bytes` under a temporary name beside `path`. Errors: those of
  /// AtomicFile and its `write`.
  [[nodiscard]] virtual std::unique_ptr<File> create(
      const std::filesystem::path& path, std::span<const std::byte> bytes,
      const FileRule& rule) = 0;
  /// Makes the names in the folder durable, where the file system can do that.
  virtual void sync_folder(const std::filesystem::path& folder) noexcept = 0;
};

/// The operating system's disk. It has no state.
[[nodiscard]] Disk& system_disk();

}  // namespace troupe

#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "kernels/core/atomic_file.h"

namespace troupe {

/// Port: where files become durable, cut into the steps of AtomicFile, so that
/// many files can share one sync of their folder.
/// Thread: any, several at once; one per file.
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
    /// Once it is synced as well, the name is durable.
    [[nodiscard]] virtual std::filesystem::path folder() const = 0;
  };

  virtual ~Disk() = default;
  /// Errors: those of AtomicFile and its `write`.
  [[nodiscard]] virtual std::unique_ptr<File> create(
      const std::filesystem::path& path, std::span<const std::byte> bytes,
      const FileRule& rule) = 0;
  virtual void sync_folder(const std::filesystem::path& folder) noexcept = 0;
};

/// The system's. It has no state.
[[nodiscard]] Disk& system_disk();

}  // namespace troupe

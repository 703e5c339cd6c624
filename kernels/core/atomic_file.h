#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace troupe {

/// What becomes of a file that stands where one is to appear.
enum class IfThere : std::uint8_t { replace, refuse };

/// A file that is there whole or not at all: written under a temporary name in
/// the same folder, synced, then renamed over `path`. Without `commit` nothing
/// is left behind. A symbolic link is followed, also to a file that is not
/// there yet; a file that is replaced keeps its permissions.
///
/// Thread: one per object; several objects may write in one folder.
class AtomicFile {
 public:
  /// Errors: Errc::io with path and reason (missing folder, no permission,
  /// `path` is a folder or a device, read-only file system).
  explicit AtomicFile(const std::filesystem::path& path,
                      IfThere if_there = IfThere::replace);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Errors: Errc::io (disk full).
  void write(std::span<const std::byte> bytes);
  /// Makes the file appear under its name; durable on return. Once only.
  /// Errors: Errc::io; Errc::invalid_argument for a file that is there and
  /// must not be replaced, also if it came meanwhile (file systems that cannot
  /// tell replace it). The temporary file is then removed.
  void commit();

 private:
  void discard() noexcept;

  std::filesystem::path path_;  // links resolved
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  IfThere if_there_ = IfThere::replace;
};

/// Writes `bytes` to `path` atomically.
void write_file(const std::filesystem::path& path,
                std::span<const std::byte> bytes,
                IfThere if_there = IfThere::replace);

/// Throws Errc::io with path, reason and hint unless a file could be written
/// at `path` now. Tries it with an empty temporary file and leaves no trace.
void check_writable(const std::filesystem::path& path);

/// The same for new files in an existing folder.
void check_writable_folder(const std::filesystem::path& folder);

/// Opens an ordinary file for reading and returns its descriptor, which the
/// caller closes. A pipe nobody writes to, a device or a folder is refused
/// instead of waited for.
/// Errors: Errc::not_found; Errc::io naming the path.
[[nodiscard]] int open_regular_file(const std::filesystem::path& path);

/// The whole content of an ordinary file.
/// Errors: those of open_regular_file; Errc::invalid_argument if it is longer
/// than `max_bytes`.
[[nodiscard]] std::string read_file(const std::filesystem::path& path,
                                    std::size_t max_bytes);

}  // namespace troupe

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace troupe::actors {

/// Throws what became of a file or folder of the cache. `reason`: errno.
/// Errors: Errc::no_space; Errc::io.
[[noreturn]] void fail_in_cache(const std::filesystem::path& path,
                                const std::string& what, int reason);

/// Checks that files can be made in a folder of the cache, or that the folder
/// can be made. Errors: Errc::io.
void check_cache_folder(const std::filesystem::path& folder);

/// Makes a folder of the cache, with those above it, and checks it. Errors:
/// Errc::io; Errc::no_space.
void make_cache_folder(const std::filesystem::path& folder);

/// An open file of the cache, closed in any case. Errors of all: Errc::io;
/// Errc::no_space. Thread: one.
class CacheFile {
 public:
  /// Opens the file for reading and writing, and creates it if needed. Follows
  /// no link.
  explicit CacheFile(const std::filesystem::path& path);
  ~CacheFile();
  CacheFile(const CacheFile&) = delete;
  CacheFile& operator=(const CacheFile&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] std::uint64_t size() const;
  void resize(std::uint64_t size) const;
  void write(std::uint64_t offset, std::span<const std::byte> bytes) const;
  void sync() const;

 private:
  std::filesystem::path path_;
  int descriptor_;
};

/// A file of the cache that one process at a time has locked. Thread: one.
class CacheLock {
 public:
  /// While another process has the lock, `waits_on` is asked every 50 ms. Once
  /// it says no, this object goes on without the lock. Errors: as CacheFile;
  /// those of `waits_on`.
  CacheLock(const std::filesystem::path& path,
            const std::function<bool()>& waits_on);

 private:
  CacheFile file_;
};

}  // namespace troupe::actors

#pragma once

#include <filesystem>

namespace troupe::actors {

/// A folder that is held open, so that it is told from one that takes its name
/// later. Thread: any.
class WatchedFolder {
 public:
  /// Errors: Errc::io.
  explicit WatchedFolder(std::filesystem::path path);
  ~WatchedFolder();
  WatchedFolder(const WatchedFolder&) = delete;
  WatchedFolder& operator=(const WatchedFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept {
    return path_;
  }
  /// Whether the path still leads to it.
  [[nodiscard]] bool is_in_place() const;
  /// Whether it is no more, rather than somewhere else.
  [[nodiscard]] bool is_removed() const;
  /// Where it is now; empty where that is not known.
  [[nodiscard]] std::filesystem::path found_at() const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace troupe::actors

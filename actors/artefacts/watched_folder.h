#pragma once

#include <filesystem>

namespace troupe::actors {

/// A folder that is held open. Another folder that takes its name later is not
/// mistaken for it. A new folder is removed with this object if it is empty
/// and still in its place: a run without output leaves nothing. Thread: any.
class WatchedFolder {
 public:
  /// Errors: Errc::io.
  WatchedFolder(std::filesystem::path path, bool is_new);
  ~WatchedFolder();
  WatchedFolder(const WatchedFolder&) = delete;
  WatchedFolder& operator=(const WatchedFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept {
    return path_;
  }
  /// Whether the path still leads to it.
  [[nodiscard]] bool is_in_place() const;
  /// Whether it was removed, not moved.
  [[nodiscard]] bool is_removed() const;
  /// Where it is now; empty where that is not known.
  [[nodiscard]] std::filesystem::path found_at() const;

 private:
  std::filesystem::path path_;
  bool is_new_;
  int descriptor_ = -1;
};

}  // namespace troupe::actors

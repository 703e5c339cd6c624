#pragma once

#include <string>

namespace troupe::actors {

/// A new folder in the system's folder for temporary files that nobody else may
/// enter (mode 0700): a local socket lies there. It is removed with the object.
/// If the process is killed before that, the next SocketFolder of the same user
/// removes it: the folder's lock (flock) says that its process lives.
/// Thread: one.
class SocketFolder {
 public:
  /// Empty: none is held.
  SocketFolder() = default;
  /// Without one, `path()` is empty: a folder could not be made.
  [[nodiscard]] static SocketFolder make();
  SocketFolder(SocketFolder&& other) noexcept;
  SocketFolder& operator=(SocketFolder&& other) noexcept;
  ~SocketFolder();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Where a hub is to listen. Precondition: there is a folder.
  [[nodiscard]] std::string endpoint() const;

 private:
  std::string path_;
  int folder_ = -1;  ///< open, and locked
};

}  // namespace troupe::actors

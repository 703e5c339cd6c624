#include "actors/artefacts/watched_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "kernels/core/error.h"

namespace troupe::actors {

namespace fs = std::filesystem;

WatchedFolder::WatchedFolder(fs::path path, bool is_new)
    : path_(std::move(path)),
      is_new_(is_new),
      descriptor_(::open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) {
    throw Error(Errc::io, "--out",
                "cannot open the folder " + path_.string() + ": " +
                    std::generic_category().message(errno),
                "choose a folder you may write to");
  }
}

WatchedFolder::~WatchedFolder() {
  std::error_code error;
  if (is_new_ && is_in_place()) {
    fs::remove(path_, error);  // fails where there is something
  }
  ::close(descriptor_);
}

bool WatchedFolder::is_in_place() const {
  struct stat held {};
  struct stat named {};
  return ::fstat(descriptor_, &held) == 0 &&
         ::stat(path_.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

bool WatchedFolder::is_removed() const {
  struct stat held {};
  // On NFS fstat fails for a folder that another machine removed.
  return ::fstat(descriptor_, &held) != 0 || held.st_nlink == 0;
}

fs::path WatchedFolder::found_at() const {
  std::error_code error;
  fs::path path =
      fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor_), error);
  return error ? fs::path() : path;
}

}  // namespace troupe::actors

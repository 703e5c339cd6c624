#include "actors/cli/socket_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "troupe-peer-";
constexpr std::string_view kRandom = "XXXXXX";
constexpr std::string_view kSocket = "values";

/// -1: it is no folder, or not ours alone.
int open_ours(const fs::path& path) {
  const int folder =
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status {};
  if (folder >= 0 &&
      (::fstat(folder, &status) != 0 || status.st_uid != ::geteuid() ||
       (status.st_mode & 0077U) != 0)) {
    ::close(folder);
    return -1;
  }
  return folder;
}

bool is_removed(int folder) {
  struct stat status {};
  return ::fstat(folder, &status) != 0 || status.st_nlink == 0;
}

/// The socket and its lock (net::PathLock), and then the folder. Whatever else
/// lies there is nobody's to remove, and keeps the folder.
void remove_folder(int folder, const std::string& path) {
  const std::string socket(kSocket);
  (void)::unlinkat(folder, socket.c_str(), 0);
  (void)::unlinkat(folder, (socket + ".lock").c_str(), 0);
  (void)::rmdir(path.c_str());
}

/// Of processes that were killed.
void remove_leftovers(const fs::path& among) {
  std::error_code error;
  for (fs::directory_iterator it(among, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename();
    if (!name.starts_with(kPrefix) ||
        name.size() != kPrefix.size() + kRandom.size()) {
      continue;
    }
    const int folder = open_ours(it->path());
    if (folder >= 0) {
      if (::flock(folder, LOCK_EX | LOCK_NB) == 0) {
        remove_folder(folder, it->path());
      }
      ::close(folder);
    }
  }
}

}  // namespace

SocketFolder SocketFolder::make() {
  SocketFolder made;
  std::error_code error;
  const fs::path among = fs::temp_directory_path(error);
  if (error) {
    return made;
  }
  remove_leftovers(among);
  // Until it is locked it looks left over: another process may remove it.
  constexpr int kTries = 10;
  for (int i = 0; i < kTries && made.folder_ < 0; ++i) {
    std::string path = among / (std::string(kPrefix) + std::string(kRandom));
    if (::mkdtemp(path.data()) == nullptr) {
      return made;
    }
    const int folder = open_ours(path);
    // A file system without such locks has no leftovers removed, either.
    const bool is_locked =
        ::flock(folder, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (folder >= 0 && is_locked && !is_removed(folder)) {
      made.folder_ = folder;
      made.path_ = std::move(path);
    } else if (folder >= 0) {
      ::close(folder);
    }
  }
  return made;
}

SocketFolder::SocketFolder(SocketFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      folder_(std::exchange(other.folder_, -1)) {}

SocketFolder& SocketFolder::operator=(SocketFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(folder_, other.folder_);
  return *this;
}

SocketFolder::~SocketFolder() {
  if (folder_ >= 0) {
    remove_folder(folder_, path_);
    ::close(folder_);
  }
}

std::string SocketFolder::endpoint() const {
  return "ipc://" + path_ + "/" + std::string(kSocket);
}

}  // namespace troupe::actors

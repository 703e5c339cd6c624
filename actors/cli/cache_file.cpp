#include "actors/cli/cache_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "kernels/core/error.h"
#include "kernels/core/system/exit_codes.h"

namespace fs = std::filesystem;

namespace troupe::actors {

void fail_in_cache(const fs::path& path, const std::string& what, int reason) {
  throw Error(file_error(reason), path.string(),
              what + ": " + std::strerror(reason),
              "change that, or name another folder with --cache; what has come "
              "is kept");
}

void check_cache_folder(const fs::path& folder) {
  std::error_code error;
  fs::path there = fs::absolute(folder, error);
  while (!fs::exists(there, error) && there.has_relative_path()) {
    there = there.parent_path();
  }
  const bool is_made = fs::exists(folder, error);
  const char* what = is_made ? "may not be written to" : "cannot be made";
  if (!fs::is_directory(there, error)) {
    fail_in_cache(folder, what, ENOTDIR);
  }
  if (::access(there.c_str(), W_OK | X_OK) != 0) {
    fail_in_cache(folder, what, errno);
  }
}

void make_cache_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    fail_in_cache(folder, "cannot be made", error.value());
  }
  check_cache_folder(folder);
}

CacheFile::CacheFile(const fs::path& path)
    : path_(path),
      descriptor_(::open(path.c_str(),
                         O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)) {
  if (descriptor_ < 0) {
    fail_in_cache(path, "cannot be opened", errno);
  }
}

CacheFile::~CacheFile() { ::close(descriptor_); }

std::uint64_t CacheFile::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    fail_in_cache(path_, "cannot be looked at", errno);
  }
  return static_cast<std::uint64_t>(status.st_size);
}

void CacheFile::resize(std::uint64_t size) const {
  if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
    fail_in_cache(path_, "cannot be shortened", errno);
  }
}

void CacheFile::write(std::uint64_t offset,
                      std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(),
                                     static_cast<off_t>(offset));
    if (written < 0 && errno != EINTR) {
      fail_in_cache(path_, "cannot be written", errno);
    }
    const auto done = static_cast<std::size_t>(std::max<ssize_t>(written, 0));
    offset += done;
    bytes = bytes.subspan(done);
  }
}

void CacheFile::sync() const {
  if (::fsync(descriptor_) != 0) {
    fail_in_cache(path_, "cannot be written", errno);
  }
}

CacheLock::CacheLock(const fs::path& path,
                     const std::function<bool()>& waits_on)
    : file_(path) {
  constexpr auto kGlance = std::chrono::milliseconds(50);
  while (::flock(file_.descriptor(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      fail_in_cache(path, "cannot be locked", errno);
    }
    if (!waits_on()) {
      return;
    }
    std::this_thread::sleep_for(kGlance);
  }
}

}  // namespace troupe::actors

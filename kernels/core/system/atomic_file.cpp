#include "kernels/core/system/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "kernels/core/system/exit_codes.h"
#include "kernels/core/system/temporary_files.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxNameAttempts = 1000;
/// How the files begin that Git LFS leaves in place of large ones.
constexpr std::string_view kGitPointer = "version https://git-lfs";

std::string_view hint_for_either(int reason) {
  switch (reason) {
    case EMFILE:
    case ENFILE:
      return "let more files be open at once (ulimit -n)";
    case ESTALE:
    case ETIMEDOUT:
      return "the file's server is at fault: try again when it answers";
    default:
      return "";
  }
}

std::string_view hint_for(int reason) {
  switch (reason) {
    case ENOENT:
    case ENOTDIR:
      return "create the folder first, or choose another path";
    case EACCES:
    case EPERM:
      return "choose a path you may write to, or change its permissions";
    case EISDIR:
      return "name a file inside the folder";
    case EROFS:
      return "choose a path on a writable file system";
    case ENOSPC:
    case EDQUOT:
      return "make room there, or choose a path on another disk";
    case EFBIG:
      return "raise the limit on the size of files (ulimit -f), if there is "
             "one, or choose a path on another file system";
    case EIO:
      return "the disk or network is at fault: look in the system's log "
             "(dmesg), or choose a path on another disk";
    default:
      return hint_for_either(reason);
  }
}

std::string_view hint_for_reading(int reason) {
  switch (reason) {
    case EACCES:
    case EPERM:
      return "ask for the right to read it, or change its permissions";
    case EIO:
      return "the disk or network is at fault: get the file again";
    default:
      return hint_for_either(reason);
  }
}

[[noreturn]] void fail(std::string_view what, const fs::path& path,
                       int reason) {
  throw Error(file_error(reason), "file",
              "cannot " + std::string(what) + " " + path.string() + ": " +
                  std::generic_category().message(reason),
              what == "read" ? hint_for_reading(reason) : hint_for(reason));
}

// Says which part of the path is a link whose target is not there; empty:
// none is.
std::string dangling_link(const fs::path& path) {
  std::error_code error;
  fs::path begin;
  for (const fs::path& part : path) {
    begin /= part;
    if (fs::is_symlink(begin, error) && !fs::exists(begin, error)) {
      return begin.string() + " is a link to " +
             fs::read_symlink(begin, error).string() + ", which is not there";
    }
  }
  return {};
}

// The descriptor; -1: a socket (ENXIO).
int open_to_read(const fs::path& path, int flags) {
  const int descriptor =
      ::open(path.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC | flags);
  const int reason = errno;
  if (descriptor < 0 && (reason == ENOENT || reason == ENOTDIR)) {
    const std::string link = dangling_link(path);
    throw Error(
        Errc::not_found, "file",
        "cannot read " + path.string() + ": " +
            (link.empty() ? std::generic_category().message(reason) : link),
        link.empty() ? "check the path"
                     : "bring the link's target back, or get the file "
                       "again");
  }
  if (descriptor < 0 && reason != ENXIO) {
    fail("read", path, reason);
  }
  return descriptor;
}

// What is left to read, up to the end.
std::string read_all(int descriptor, const fs::path& path,
                     std::size_t max_bytes) {
  std::string content;
  std::array<char, 65536> buffer{};
  for (;;) {
    const ::ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      fail("read", path, errno);
    }
    if (count == 0) {
      require(!content.starts_with(kGitPointer), Errc::not_found, "file",
              path.string() + " is not here: Git LFS left a pointer to it",
              "run git lfs pull in its folder");
      return content;
    }
    if (static_cast<std::size_t>(count) > max_bytes - content.size()) {
      throw Error(Errc::invalid_argument, "file",
                  path.string() + " is too long: expected at most " +
                      std::to_string(max_bytes) + " bytes");
    }
    content.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

// The end of a chain of links to a missing file. `stat` has followed the chain,
// so it is finite.
fs::path end_of_links(fs::path path) {
  std::error_code error;
  for (fs::path next = fs::read_symlink(path, error); !error;
       next = fs::read_symlink(path, error)) {
    path = path.parent_path() / next;
  }
  return path;
}

// The target of a rename: `path`, or the target of the link `path`.
fs::path target_of(const fs::path& path) {
  struct stat status {};
  if (path.empty()) {
    fail("write", "\"\"", ENOENT);
  }
  if (::stat(path.c_str(), &status) != 0) {
    const int reason = errno;
    if (reason != ENOENT) {
      fail("write", path, reason);
    }
    return end_of_links(path);
  }
  if (S_ISDIR(status.st_mode)) {
    fail("write", path, EISDIR);
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(Errc::io, "file",
                "cannot write " + path.string() + ": not a regular file",
                "name an ordinary file; it is replaced as a whole");
  }
  std::error_code error;
  const fs::path resolved = fs::canonical(path, error);
  return error ? path : resolved;
}

fs::path folder_of(const fs::path& path) {
  const fs::path folder = path.parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

// Creates a new empty file in `folder`; `shown` is what an error names.
std::pair<int, fs::path> create_temporary(const fs::path& folder,
                                          const fs::path& shown,
                                          ::mode_t mode = 0666) {
  const std::string stem = temporary_stem(this_process());
  for (int attempt = 0; attempt < kMaxNameAttempts; ++attempt) {
    fs::path name = folder / (stem + std::to_string(attempt) + ".tmp");
    const int descriptor =
        ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor >= 0) {
      // Tells a sweep that this process lives; best effort.
      (void)::flock(descriptor, LOCK_EX | LOCK_NB);
      return {descriptor, std::move(name)};
    }
    if (errno != EEXIST && errno != EINTR) {
      fail("write", shown, errno);
    }
  }
  fail("write", shown, EEXIST);
}

// 0, or why not.
int rename_over(const fs::path& from, const fs::path& to) {
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) {
      ::close(value_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const noexcept { return value_; }

 private:
  int value_;
};

// As rename, but EEXIST if the target exists.
int rename_to_new(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                  RENAME_NOREPLACE) == 0) {
    return 0;
  }
  if (errno != EINVAL && errno != ENOSYS) {
    return errno;
  }
  // A file system without it, such as NFS.
  if (::link(from.c_str(), to.c_str()) == 0) {
    ::unlink(from.c_str());
    return 0;
  }
  if (errno == EEXIST) {
    return EEXIST;
  }
  // And without links, such as FAT: an empty file takes the name first.
  const Descriptor claim(
      ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (claim.get() < 0) {
    return errno;
  }
  const int reason = rename_over(from, to);
  if (reason != 0) {
    ::unlink(to.c_str());
  }
  return reason;
}

bool have_equal_bytes(const fs::path& one, const fs::path& other) {
  constexpr std::size_t kPiece = 65536;
  std::ifstream a(one, std::ios::binary);
  std::ifstream b(other, std::ios::binary);
  std::string left(kPiece, 0);
  std::string right(kPiece, 0);
  while (a && b) {
    a.read(left.data(), kPiece);
    b.read(right.data(), kPiece);
    if (a.gcount() != b.gcount() ||
        !std::equal(left.begin(), left.begin() + a.gcount(), right.begin())) {
      return false;
    }
  }
  return a.eof() && b.eof();
}

}  // namespace

std::optional<FileStamp> stamp_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return std::nullopt;
  }
  const auto nanoseconds = [](const ::timespec& time) -> std::int64_t {
    constexpr std::int64_t kInASecond = 1'000'000'000;
    return time.tv_sec * kInASecond + time.tv_nsec;
  };
  return FileStamp{.device = status.st_dev,
                   .inode = status.st_ino,
                   .size = static_cast<std::uint64_t>(status.st_size),
                   .modified = nanoseconds(status.st_mtim),
                   .changed = nanoseconds(status.st_ctim)};
}

AtomicFile::AtomicFile(const fs::path& path, FileRule rule)
    : path_(target_of(path)), rule_(rule) {
  std::tie(descriptor_, temporary_) =
      create_temporary(folder_of(path_), path, rule.is_private ? 0600 : 0666);
  struct stat status {};
  if (!rule.is_private && ::stat(path_.c_str(), &status) == 0) {
    // Best effort: a file system without permissions refuses.
    (void)::fchmod(descriptor_, status.st_mode & 07777U);
  }
}

AtomicFile::~AtomicFile() { discard(); }

template <typename Byte, typename Step>
void AtomicFile::each(std::span<Byte> bytes, const Step& step) {
  require(descriptor_ >= 0, Errc::internal, "file",
          "written to after it was committed");
  while (!bytes.empty()) {
    const ::ssize_t count = step(bytes);
    const int reason = count == 0 ? EIO : errno;
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (count == 0 || reason != EINTR) {
      discard();
      fail("write", path_, reason);
    }
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  each(bytes, [this](std::span<const std::byte> left) {
    return ::write(descriptor_, left.data(), left.size());
  });
}

void AtomicFile::reserve(std::uint64_t size) {
  if (size > 0 &&
      ::fallocate(descriptor_, 0, 0, static_cast<::off_t>(size)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT)) {
    const int reason = errno;
    discard();
    fail("write", path_, reason);
  }
}

void AtomicFile::write_at(std::uint64_t offset,
                          std::span<const std::byte> bytes) {
  const std::uint64_t end = offset + bytes.size();
  each(bytes, [this, end](std::span<const std::byte> left) {
    return ::pwrite(descriptor_, left.data(), left.size(),
                    static_cast<::off_t>(end - left.size()));
  });
}

void AtomicFile::read_at(std::uint64_t offset, std::span<std::byte> bytes) {
  const std::uint64_t end = offset + bytes.size();
  each(bytes, [this, end](std::span<std::byte> left) {
    return ::pread(descriptor_, left.data(), left.size(),
                   static_cast<::off_t>(end - left.size()));
  });
}

void AtomicFile::cut(std::uint64_t size) {
  require(descriptor_ >= 0, Errc::internal, "file",
          "written to after it was committed");
  if (::ftruncate(descriptor_, static_cast<::off_t>(size)) != 0) {
    const int reason = errno;
    discard();
    fail("write", path_, reason);
  }
}

void AtomicFile::sync() {
  require(descriptor_ >= 0, Errc::internal, "file", "committed twice");
  const int reason = ::fsync(descriptor_) == 0 ? 0 : errno;
  // EINVAL and EROFS: a file system that cannot sync, not one that lost bytes.
  if (reason != 0 && reason != EINVAL && reason != EROFS) {
    discard();
    fail("write", path_, reason);
  }
}

// 0, or why not; EEXIST for a file that must not be replaced.
int AtomicFile::publish() const {
  const auto there = rule_.known ? stamp_of(path_) : std::nullopt;
  if (rule_.if_there == IfThere::replace ||
      (there && there->is_as_written(*rule_.known))) {
    return rename_over(temporary_, path_);
  }
  return rename_to_new(temporary_, path_);
}

fs::path AtomicFile::folder() const { return folder_of(path_); }

fs::path AtomicFile::kept_path(const fs::path& path) {
  return target_of(path) += ".part";
}

bool AtomicFile::keep() {
  const fs::path name = kept_path(path_);
  const Descriptor there(
      ::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  const bool is_anothers = there.get() >= 0 &&
                           ::flock(there.get(), LOCK_EX | LOCK_NB) != 0 &&
                           errno == EWOULDBLOCK;
  if (is_anothers || rename_over(temporary_, name) != 0) {
    return false;
  }
  temporary_ = name;
  is_kept_ = true;
  return true;
}

void AtomicFile::remove() noexcept {
  is_kept_ = false;
  discard();
}

bool AtomicFile::try_publish() {
  require(descriptor_ >= 0, Errc::internal, "file", "committed twice");
  // Still open and locked: a sweep would take a file without a lock for one
  // that a dead process left.
  const int reason = publish();
  ::close(std::exchange(descriptor_, -1));
  if (reason == EEXIST) {
    const bool is_taken =
        rule_.takes_equal && have_equal_bytes(temporary_, path_);
    is_kept_ = is_kept_ && !is_taken;
    discard();
    return is_taken;
  }
  if (reason != 0) {
    discard();
    fail("write", path_, reason);
  }
  temporary_.clear();
  return true;
}

void AtomicFile::commit() {
  sync();
  if (!try_publish()) {
    throw Error(Errc::invalid_argument, "file",
                "the file is there already: " + path_.string(),
                "another run made it meanwhile: give each run its own files");
  }
  sync_folder(folder());
}

void AtomicFile::discard() noexcept {
  if (descriptor_ >= 0) {
    ::close(std::exchange(descriptor_, -1));
  }
  if (!temporary_.empty() && !is_kept_) {
    ::unlink(temporary_.c_str());
    temporary_.clear();
  }
}

void sync_folder(const fs::path& folder) noexcept {
  const Descriptor opened(
      ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() >= 0) {
    (void)::fsync(opened.get());
  }
}

void write_file(const fs::path& path, std::span<const std::byte> bytes,
                const FileRule& rule) {
  AtomicFile file(path, rule);
  file.write(bytes);
  file.commit();
}

void check_writable(const fs::path& path) {
  // A rename would replace even a protected file, against the intention of its
  // owner.
  const fs::path target = target_of(path);
  if (::access(target.c_str(), F_OK) == 0 &&
      ::access(target.c_str(), W_OK) != 0) {
    fail("write", path, errno);
  }
  const AtomicFile trial(path);
}

void check_writable_folder(const fs::path& folder) {
  const auto [descriptor, name] = create_temporary(folder, folder);
  ::close(descriptor);
  ::unlink(name.c_str());
}

int open_regular_file(const fs::path& path) {
  // Without O_NONBLOCK a pipe is opened only when somebody writes to it.
  const int descriptor = open_to_read(path, O_NONBLOCK);
  struct stat status {};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0 ||
      !S_ISREG(status.st_mode)) {
    const Descriptor closed(descriptor);
    throw Error(Errc::io, "file",
                "cannot read " + path.string() + ": not a regular file",
                "name an ordinary file, not a folder, pipe or device");
  }
  return descriptor;
}

std::string read_file(const fs::path& path, std::size_t max_bytes) {
  const Descriptor file(open_regular_file(path));
  return read_all(file.get(), path, max_bytes);
}

std::string read_stream(const fs::path& path, std::size_t max_bytes) {
  if (path == "-") {
    return read_all(STDIN_FILENO, "standard input", max_bytes);
  }
  const Descriptor file(open_to_read(path, 0));
  if (file.get() < 0) {
    fail("read", path, ENXIO);
  }
  return read_all(file.get(), path, max_bytes);
}

}  // namespace troupe

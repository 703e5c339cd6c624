#include "actors/artefacts/output_paths.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "actors/artefacts/png.h"
#include "kernels/core/hash.h"
#include "kernels/core/system/exit_codes.h"
#include "kernels/core/text.h"

namespace troupe::actors {

namespace fs = std::filesystem;

bool is_blank(std::string_view head) {
  constexpr std::size_t kLooked = 8;
  return std::ranges::all_of(head.substr(0, kLooked),
                             [](char c) { return c == 0; });
}

std::string first_bytes(const fs::path& path, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), Errc::io, path.string(), "cannot read the file",
          "check its permissions");
  std::string head(most, '\0');
  file.read(head.data(), static_cast<std::streamsize>(most));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return head;
}

/// A folder that is held open, so a later folder of the same name is recognised
/// as a different one. A new folder is removed with this object if it is empty
/// and still in its place: a run without output leaves nothing.
///
/// Locks are of bytes of a file in it, and end with this object or the process.
/// The file goes with the last of them. Thread: any; `lock`: one.
class WatchedFolder {
 public:
  using Bytes = OutputPaths::LockedBytes;

  /// Errors: Errc::io.
  WatchedFolder(fs::path path, bool is_new);
  ~WatchedFolder();
  WatchedFolder(const WatchedFolder&) = delete;
  WatchedFolder& operator=(const WatchedFolder&) = delete;

  [[nodiscard]] const fs::path& path() const noexcept { return path_; }
  /// Whether the path still leads to it.
  [[nodiscard]] bool is_in_place() const;
  /// Whether it was removed, not moved.
  [[nodiscard]] bool is_removed() const;
  /// Where it is now; empty where that is not known.
  [[nodiscard]] fs::path found_at() const;
  /// False: another process has some of the bytes locked. True where the folder
  /// cannot lock, as some network file systems: nothing is locked then.
  [[nodiscard]] bool lock(const Bytes& bytes);

 private:
  static constexpr const char* kLockName = ".troupe.lock";
  [[nodiscard]] bool is_lock_in_place() const;
  void close_lock();

  fs::path path_;
  bool is_new_;
  int descriptor_ = -1;
  int lock_ = -1;
};

namespace {

/// 0, or why the file's bytes are not locked. `bytes.size` 0: all from there.
/// The lock is the descriptor's, not the process's: no other use of the file
/// ends it.
int lock_bytes(int file, const OutputPaths::LockedBytes& bytes) {
  struct flock wanted {};
  wanted.l_type = F_WRLCK;
  wanted.l_whence = SEEK_SET;
  wanted.l_start = static_cast<off_t>(bytes.begin);
  wanted.l_len = static_cast<off_t>(bytes.size);
  return ::fcntl(file, F_OFD_SETLK, &wanted) == 0 ? 0 : errno;
}

}  // namespace

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
  if (lock_ >= 0) {
    if (is_lock_in_place() && lock_bytes(lock_, {}) == 0) {
      ::unlinkat(descriptor_, kLockName, 0);  // nobody else has a lock
    }
    close_lock();
  }
  std::error_code error;
  if (is_new_ && is_in_place()) {
    fs::remove(path_, error);  // fails where there is something
  }
  ::close(descriptor_);
}

bool WatchedFolder::lock(const Bytes& bytes) {
  for (;;) {
    if (lock_ < 0) {
      lock_ = ::openat(descriptor_, kLockName,
                       O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    }
    if (lock_ < 0) {
      return true;  // whether images can be written there is found out soon
    }
    const int reason = lock_bytes(lock_, bytes);
    if (reason == EAGAIN || reason == EACCES) {
      return false;
    }
    if (reason != 0) {
      ::unlinkat(descriptor_, kLockName, 0);
      close_lock();
      return true;
    }
    if (is_lock_in_place()) {
      return true;
    }
    close_lock();  // its last owner has removed it meanwhile
  }
}

void WatchedFolder::close_lock() { ::close(std::exchange(lock_, -1)); }

bool WatchedFolder::is_lock_in_place() const {
  struct stat held {};
  struct stat named {};
  return ::fstat(lock_, &held) == 0 &&
         ::fstatat(descriptor_, kLockName, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
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

namespace {

bool is_folder(const std::string& out) {
  std::error_code error;
  return out.ends_with('/') || fs::is_directory(out, error) ||
         fs::path(out).extension().empty();
}

void write_to_stdout(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ::ssize_t count = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    const int reason = errno;
    if (count < 0 && reason != EINTR) {
      throw Error(
          file_error(reason), "--out",
          "cannot write to stdout: " + std::generic_category().message(reason),
          reason == EPIPE ? "its reader has gone: let it read to the end" : "");
    }
    bytes =
        bytes.subspan(static_cast<std::size_t>(std::max<::ssize_t>(count, 0)));
  }
}

}  // namespace

OutputPaths::OutputPaths(const std::string& out,
                         const config::SampleRange& samples, const char* flag)
    : flag_(flag) {
  if (out == "-") {
    check(samples.size() <= 1, out, "stdout takes one picture, not several",
          "give a folder, or -n 1; ./- is a folder of that name");
    before_ = out;
    is_stdout_ = true;
    return;
  }
  check(lowered(fs::path(out).filename().string()) != ".png", out,
        "a name is missing before .png",
        "was a shell variable meant that is not set?");
  const std::size_t open = out.find('{');
  if (open == std::string::npos && is_folder(out)) {
    constexpr int kFolderWidth = 5;
    before_ = out.ends_with('/') ? out : out + "/";
    after_ = ".png";
    width_ = kFolderWidth;
    has_index_ = true;
    return;
  }
  check(is_png_name(out), out, "images are written as PNG",
        "end the name in .png, or give a folder");
  if (open == std::string::npos) {
    check(samples.size() <= 1, out, "one file name for several samples",
          "give a folder or a pattern such as out-{index:05}.png");
    before_ = out;
    return;
  }
  read_pattern(out, open);
}

void OutputPaths::check(bool is_right, const std::string& out,
                        std::string_view what, std::string_view hint) const {
  require(is_right, Errc::invalid_argument, flag_,
          std::string(what) + ": got " + in_quotes(out), hint);
}

void OutputPaths::read_pattern(const std::string& out, std::size_t open) {
  constexpr std::string_view kOpen = "{index";
  constexpr int kMaxWidth = 20;
  constexpr const char* kExample = "for example out-{index:05}.png";
  const std::size_t close = out.find('}', open);
  std::string_view inside = std::string_view(out).substr(open, close - open);
  check(close != out.npos && inside.starts_with(kOpen) &&
            out.find('{', open + 1) == out.npos &&
            out.find('/', open) == out.npos,
        out, "the only placeholder is {index} or {index:05}, in the file name",
        kExample);
  inside.remove_prefix(kOpen.size());
  if (!inside.empty()) {
    check(inside.size() >= 3 && inside.starts_with(":0"), out,
          "a width is written as in {index:05}", kExample);
    width_ = static_cast<int>(
        config::parse_integer(flag_, inside.substr(2), 1, kMaxWidth));
  }
  before_ = out.substr(0, open);
  after_ = out.substr(close + 1);
  has_index_ = true;
}

fs::path OutputPaths::path(std::uint64_t index) const {
  return has_index_ ? fmt::format("{}{:0{}}{}", before_, index, width_, after_)
                    : before_;
}

fs::path OutputPaths::folder() const {
  const fs::path parent = path(0).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

void OutputPaths::prepare() {
  if (is_stdout_) {
    return;
  }
  const fs::path where = folder();
  bool is_new = false;
  std::error_code error;
  const bool is_there = fs::exists(where, error);
  check(!is_there || fs::is_directory(where, error), where.string(),
        "a file is there, not a folder",
        "name another folder, or end the name in .png");
  if (!is_there) {
    is_new = fs::create_directory(where, error);
    if (error) {
      throw Error(
          file_error(error.value()), "--out",
          "cannot make the folder " + where.string() + ": " + error.message(),
          "its parent folder must exist and be writable");
    }
  }
  watched_ = std::make_shared<WatchedFolder>(where, is_new);
  check_writable_folder(where);
}

bool OutputPaths::try_lock(const config::SampleRange& samples) {
  // Names that differ have their samples in other parts of the file.
  constexpr unsigned kSampleBits = 40;
  constexpr std::uint64_t kMostSamples = std::uint64_t{1} << kSampleBits;
  constexpr std::uint64_t kNames = std::uint64_t{1} << 22U;
  const std::string name = fmt::format(
      "{}\n{}\n{}", fs::path(before_).filename().string(), width_, after_);
  const std::uint64_t part = xxh3_64(std::as_bytes(std::span(name))) % kNames;
  const std::uint64_t begin = has_index_ ? samples.begin % kMostSamples : 0;
  const std::uint64_t size = has_index_ ? samples.size() : 1;
  locked_ = {(part << kSampleBits) + begin,
             std::min(size, kMostSamples - begin)};
  return !watched_ || watched_->lock(locked_);
}

void OutputPaths::check_folder() const {
  const std::lock_guard lock(*mutex_);
  check_in_place();
}

void OutputPaths::check_in_place() const {
  if (!watched_ || watched_->is_in_place()) {
    return;
  }
  const std::string path = watched_->path().string();
  const bool is_removed = watched_->is_removed();
  const std::string at = is_removed ? "" : watched_->found_at().string();
  throw Error(
      Errc::job_failed, path,
      fmt::format("the output folder was {} while the job ran, with {} of it{}",
                  is_removed ? "removed" : "moved away",
                  counted(num_there_, "image"), at.empty() ? "" : ", to " + at),
      is_removed ? "let it stand until the job has ended"
                 : "move it back to " + path);
}

void OutputPaths::make_removed_folder() {
  if (!watched_ || num_there_ > 0 || watched_->is_in_place() ||
      !watched_->is_removed()) {
    return;
  }
  std::error_code error;
  fs::create_directory(folder(), error);
  watched_ = std::make_shared<WatchedFolder>(folder(), false);
  if (locked_.size > 0) {
    (void)watched_->lock(locked_);
  }
}

bool OutputPaths::write(std::uint64_t index, std::span<const std::byte> bytes,
                        const FileRule& rule) {
  if (is_stdout_) {
    write_to_stdout(bytes);
    return true;
  }
  Disk& disk = system_disk();
  const std::unique_ptr<Disk::File> file = put(disk, index, bytes, rule);
  file->sync();
  const bool is_written = publish(*file);
  disk.sync_folder(file->folder());
  return is_written;
}

std::unique_ptr<Disk::File> OutputPaths::put(Disk& disk, std::uint64_t index,
                                             std::span<const std::byte> bytes,
                                             const FileRule& rule) {
  {
    const std::lock_guard lock(*mutex_);
    make_removed_folder();
    check_in_place();
  }
  try {
    return disk.create(path(index), bytes, rule);
  } catch (const Error&) {
    check_folder();  // why there is no such folder
    throw;
  }
}

bool OutputPaths::publish(Disk::File& file) {
  {
    // Before the file has its name. If the folder is removed as soon as that
    // is there, another thread's put() must not make the folder anew: the
    // image would be missing from a run that ends well.
    const std::lock_guard lock(*mutex_);
    ++num_there_;
  }
  bool is_written = false;
  try {
    is_written = file.try_publish();
  } catch (const Error&) {
    const std::lock_guard lock(*mutex_);
    --num_there_;
    check_in_place();  // why it has failed
    throw;
  }
  check_folder();
  return is_written;
}

}  // namespace troupe::actors

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "config/config.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/system/disk.h"

namespace troupe::actors {

/// Whether a file that begins so has nothing that could be lost: it is empty,
/// or begins with eight zeros, as a power cut leaves files. No picture, archive
/// or text begins so.
[[nodiscard]] bool is_blank(std::string_view head);
/// The first bytes of a file, `most` or fewer. Errors: Errc::io.
[[nodiscard]] std::string first_bytes(const std::filesystem::path& path,
                                      std::size_t most);

class WatchedFolder;

/// Where the images of a run go: one file, a file per sample from a folder or a
/// pattern, or one image to stdout. Nothing is ever renamed silently.
class OutputPaths {
 public:
  /// `out` is FILE.png or "-" (stdout) for one sample; a folder ("00042.png"
  /// inside) or a pattern with {index} or {index:05} for any number.
  /// Errors: Errc::invalid_argument with what to write instead, naming `flag`.
  OutputPaths(const std::string& out, const config::SampleRange& samples,
              const char* flag = "--out");

  [[nodiscard]] bool is_stdout() const noexcept { return is_stdout_; }
  /// "-" for stdout.
  [[nodiscard]] std::filesystem::path path(std::uint64_t index) const;
  /// Whether all samples have the same path.
  [[nodiscard]] bool is_one_file() const noexcept { return !has_index_; }
  /// The folder all files go to; created by `prepare`.
  [[nodiscard]] std::filesystem::path folder() const;
  /// Makes the folder (its parent must exist), tries to write there and keeps
  /// it open. A new folder that stays empty is removed with this object.
  /// Errors: Errc::invalid_argument if a file is there, not a folder; Errc::io;
  /// Errc::no_space.
  void prepare();
  /// Bytes of a file that locks are of.
  struct LockedBytes {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
  };
  /// After `prepare`. From now on the images of these samples are this
  /// process's to make, until this object or the process ends. False: another
  /// process makes some of them. Jobs with other samples, or other names, may
  /// share a folder. Where its file system has no locks, nothing is locked.
  [[nodiscard]] bool try_lock(const config::SampleRange& samples);
  /// So many images of this run are in the folder already.
  void set_there(std::size_t count) { num_there_ = count; }
  /// Writes a file under `path(index)`, whole or not at all. False: the path
  /// has a file that must not be replaced. Another run may have removed the
  /// folder because it wrote nothing there: before the first image it is made
  /// again.
  /// Errors: those of check_folder, AtomicFile, its `sync` and `try_publish`.
  [[nodiscard]] bool write(std::uint64_t index,
                           std::span<const std::byte> bytes,
                           const FileRule& rule = {});
  /// The first half of `write`, for whoever syncs many files at once: puts the
  /// file there under a temporary name. Not for stdout. Thread: any.
  [[nodiscard]] std::unique_ptr<Disk::File> put(
      Disk& disk, std::uint64_t index, std::span<const std::byte> bytes,
      const FileRule& rule);
  /// The second half, after `sync`. The folder is to be synced. Thread: any.
  [[nodiscard]] bool publish(Disk::File& file);
  /// Errors: Errc::job_failed if the prepared folder is gone, or another has
  /// its name now: then images are not where the run says they are.
  void check_folder() const;

 private:
  void check(bool is_right, const std::string& out, std::string_view what,
             std::string_view hint) const;
  /// Of a name with a placeholder, which begins at `open`.
  void read_pattern(const std::string& out, std::size_t open);
  void make_removed_folder();
  void check_in_place() const;

  const char* flag_;
  std::string before_;  ///< text around the index; the whole path if none
  std::string after_;
  int width_ = 0;
  bool has_index_ = false;
  std::shared_ptr<std::mutex> mutex_ = std::make_shared<std::mutex>();
  // Under the mutex:
  std::shared_ptr<WatchedFolder> watched_;  ///< null: not prepared
  LockedBytes locked_;
  std::size_t num_there_ = 0;
  bool is_stdout_ = false;
};

}  // namespace troupe::actors

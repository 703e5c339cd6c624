#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "actors/grant.h"
#include "kernels/core/system/disk.h"

namespace troupe::actors {

/// What becomes of one picture. Whatever the functions hold is let go of as
/// soon as the picture has landed, or is dropped.
struct PictureJob {
  /// Makes the bytes of the file. Of several pictures at once. Empty: there is
  /// no file to make, and `publish` does all.
  std::function<std::vector<std::byte>()> encode;
  /// Puts them under a temporary name. Of many pictures at once.
  std::function<std::unique_ptr<Disk::File>(Disk& disk,
                                            std::span<const std::byte>)>
      put;
  /// Gives the file its name; null where there is none. One at a time, in the
  /// order of posting.
  std::function<void(Disk::File*)> publish;
  /// The file is durable. One at a time, in the order of posting.
  std::function<void()> landed;
};

/// Writes pictures on threads of its own, so that computing never waits for a
/// disk. Pictures are encoded and synced side by side. Pictures get their names
/// in the order of posting. Pictures that are ready at the same time share one
/// sync of the folder. After the first error, in that order, the rest is
/// dropped.
///
///   waiting ──▶ encoded ──▶ put ──▶ synced ──▶ published ──▶ landed
///            (side by side)            (in order, as a group)
///
/// There are many threads because they wait for the disk, not for the
/// processor: a sync of 30 ms let one thread write 16 pictures a second, two
/// syncs each. `syncfs` would be one wait for all pictures, but it also waits
/// for what other programs have written.
///
/// Thread: any, except that one thread destroys it.
class PictureWriter {
 public:
  struct Options {
    std::size_t capacity = 4096;  ///< most pictures that wait
    std::size_t threads = 16;     ///< they wait for the disk, mostly
    int encoders = 0;             ///< of them at once; 0: four, if cores allow
  };
  /// Starts one thread; more are started when pictures wait. Errors:
  /// Errc::invalid_argument if the system refuses the first. `disk` outlives
  /// the writer.
  explicit PictureWriter(Options options, Disk& disk = system_disk());
  PictureWriter() : PictureWriter(Options{}) {}
  /// Writes what waits, then ends.
  ~PictureWriter();
  PictureWriter(const PictureWriter&) = delete;
  PictureWriter& operator=(const PictureWriter&) = delete;

  /// Hands over a picture; waits while too many wait.
  /// Errors: the error of an earlier picture, whatever it threw, as
  ///         troupe::Error.
  void post(PictureJob job);
  /// Returns when everything posted so far has landed. Errors: as `post`.
  void flush();

 private:
  struct Entry {
    PictureJob job;
    std::unique_ptr<Disk::File> file;
    std::optional<Failure> failure;
    bool is_ready = false;  ///< to be published, or has failed
  };
  using Group = std::vector<std::shared_ptr<Entry>>;

  void run();
  void start_thread();
  void call_for_help();
  void wake_one();
  [[nodiscard]] bool can_begin() const;
  [[nodiscard]] bool can_commit() const;
  void prepare(Entry& entry, std::unique_lock<std::mutex>& lock);
  void commit(std::unique_lock<std::mutex>& lock);
  void publish(const Group& group);
  void throw_if_failed() const;

  Disk& disk_;
  Options options_;
  mutable std::mutex mutex_;
  std::condition_variable work_;                ///< for the writer's threads
  std::condition_variable changed_;             ///< for who posts and flushes
  std::deque<std::shared_ptr<Entry>> entries_;  ///< in the order of posting
  std::size_t num_begun_ = 0;                   ///< of them, from the first on
  int preparing_ = 0;  ///< threads that encode, put or sync
  int encoding_ = 0;
  int idle_ = 0;  ///< threads that wait for something to do
  bool is_committing_ = false;
  bool stop_ = false;
  std::optional<Failure> failure_;
  std::vector<std::thread> threads_;
};

}  // namespace troupe::actors

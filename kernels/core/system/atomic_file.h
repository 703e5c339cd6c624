#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace troupe {

/// What to do when the file to be written exists already.
enum class IfThere : std::uint8_t { replace, refuse };

/// Tells one state of one file from every other: another file has another
/// stamp, and a write to a file changes the file's stamp.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t modified = 0;  ///< nanoseconds
  /// The inode's change time in nanoseconds. Nobody can set it: content that is
  /// copied over the file together with its times (`cp -p`) changes this alone.
  std::int64_t changed = 0;

  bool operator==(const FileStamp&) const = default;
  /// Leaves `changed` out: another mode or another link of a file that a run
  /// may replace does not make it another's.
  [[nodiscard]] bool is_as_written(const FileStamp& other) const {
    return device == other.device && inode == other.inode &&
           size == other.size && modified == other.modified;
  }
};

/// The stamp of the file that `path` names or links to; nothing if there is no
/// such file.
[[nodiscard]] std::optional<FileStamp> stamp_of(
    const std::filesystem::path& path);

/// What to do when the file exists already, with two exceptions, and who may
/// read it.
struct FileRule {
  FileRule(IfThere what = IfThere::replace) : if_there(what) {}  // NOLINT

  IfThere if_there;
  /// A file that is as written under this stamp is replaced in any case.
  std::optional<FileStamp> known = {};
  /// If the file there has the same bytes, keep it and report success.
  bool takes_equal = false;
  /// Nobody but its owner may read or write the file (mode 0600), from its
  /// first byte on.
  bool is_private = false;
};

/// Writes a file that appears complete or not at all. The bytes go to a
/// temporary name in the same folder, are synced, and are then renamed to
/// `path`. Without `commit` nothing is left behind, unless the process is
/// killed: see `sweep_temporaries`. Symbolic links are followed, also to a file
/// that does not exist yet. A replaced file keeps its permissions,
/// unless it is to be private.
///
/// Thread: one per object; several objects may write in one folder.
class AtomicFile {
 public:
  /// Errors: Errc::io with path and reason (missing folder, no permission,
  /// `path` is a folder or a device, read-only file system); Errc::no_space.
  explicit AtomicFile(const std::filesystem::path& path, FileRule rule = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Errors: Errc::no_space (disk or quota full); Errc::io.
  void write(std::span<const std::byte> bytes);
  /// Writes over what is there, or behind it: what is left out between is
  /// zero. Errors: as write.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Takes the room of the first `size` bytes on the disk, where its file
  /// system can. Errors: Errc::no_space.
  void reserve(std::uint64_t size);
  /// What was written there. Errors: Errc::io, also beyond its end.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes);
  /// Cuts off what is behind the first `size` bytes. Errors: Errc::io.
  void cut(std::uint64_t size);
  /// Where `keep` leaves what was written for `path`: beside it, links
  /// resolved.
  [[nodiscard]] static std::filesystem::path kept_path(
      const std::filesystem::path& path);
  /// Renames the temporary file to NAME.part, over an older file. From now on
  /// what was written outlives this object, also after an error, until it
  /// appears under its own name. The file is not locked against readers. False:
  /// nothing was done, because another process writes the file of that name.
  bool keep();
  /// Removes what was written.
  void remove() noexcept;
  /// Makes the file appear under its name; durable on return. Once only.
  /// Errors: Errc::no_space; Errc::io; Errc::invalid_argument if a file that
  /// must not be replaced exists, even if it was made after the constructor
  /// ran. On an error the temporary file is removed.
  void commit();

  /// The steps of commit, for whoever commits many files at once: `sync`, then
  /// `try_publish`. The name is durable after `sync_folder(folder())`.
  /// Errors of `sync`: Errc::no_space; Errc::io. On one nothing stays behind.
  void sync();
  /// False if a file that must not be replaced exists. If two writers race,
  /// exactly one wins. Errors: Errc::no_space; Errc::io.
  [[nodiscard]] bool try_publish();
  /// Where the file appears, links resolved.
  [[nodiscard]] std::filesystem::path folder() const;

 private:
  /// `step(bytes)`, a call of the system that takes some of them, until none
  /// is left. On an error the file is removed.
  template <typename Byte, typename Step>
  void each(std::span<Byte> bytes, const Step& step);
  [[nodiscard]] int publish() const;
  void discard() noexcept;

  std::filesystem::path path_;  // links resolved
  std::filesystem::path temporary_;
  bool is_kept_ = false;
  int descriptor_ = -1;
  FileRule rule_;
};

/// Makes the names in a folder durable, where the file system can do that.
void sync_folder(const std::filesystem::path& folder) noexcept;

/// Writes `bytes` to `path` atomically. Errors: those of AtomicFile and its
/// `commit`.
void write_file(const std::filesystem::path& path,
                std::span<const std::byte> bytes, const FileRule& rule = {});

/// Throws unless a file could be written at `path` now. Tries it with an empty
/// temporary file and leaves no trace. Errors: Errc::io with path, reason and
/// hint; Errc::no_space.
void check_writable(const std::filesystem::path& path);

/// The same for new files in an existing folder.
void check_writable_folder(const std::filesystem::path& folder);

/// Opens an ordinary file for reading and returns its descriptor, which the
/// caller closes. A pipe nobody writes to, a device or a folder is refused
/// instead of waited for.
/// Errors: Errc::not_found; Errc::io naming the path.
[[nodiscard]] int open_regular_file(const std::filesystem::path& path);

/// The whole content of an ordinary file.
/// Errors: those of open_regular_file; Errc::not_found if Git LFS left a
/// pointer in its place; Errc::invalid_argument if it is longer than
/// `max_bytes`.
[[nodiscard]] std::string read_file(const std::filesystem::path& path,
                                    std::size_t max_bytes);

/// The same of a pipe or device, too, which is read to its end and waited for.
/// "-" is standard input.
[[nodiscard]] std::string read_stream(const std::filesystem::path& path,
                                      std::size_t max_bytes);

}  // namespace troupe

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/tensor.h"

namespace troupe::actors {

/// A file of one f32 tensor [m, …] with a row per sample, of the kind that its
/// ending says (tensor_file.h). Rows are written as they come, in any order,
/// and none is held in memory. The file appears with `commit`, whole. Until
/// then rows lie beside it (AtomicFile::kept_path), also after this process was
/// killed, and a later run finds those that were sealed. Thread: one.
class RowFile {
 public:
  struct Rows {
    std::string name;  ///< of the tensor
    config::SampleRange samples;
    Shape shape;  ///< of one row

    [[nodiscard]] std::uint64_t row_bytes() const;
  };

  /// Throws unless a file of all rows fits there now. `place` opens the
  /// message. Errors: Errc::no_space; Errc::unsupported for a .npz that would
  /// be too large for its format.
  static void check_room(const std::string& place,
                         const std::filesystem::path& path, const Rows& rows);

  /// Calls `row` for each row [...] that was sealed and is still as it was, of
  /// the file that a run without an end has left for `path`, whatever its
  /// samples were. Errors: Errc::io; those of `row`.
  static void for_each_left(const std::filesystem::path& path,
                            const Shape& shape,
                            const std::function<void(Tensor)>& row);

  /// Takes the room of all rows. Errors: those of AtomicFile.
  RowFile(const std::filesystem::path& path, Rows rows, const FileRule& rule);
  /// Without a sealed row nothing stays.
  ~RowFile();
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;

  /// What is written stays from now on, instead of what an earlier run has
  /// left: call it when the rows of that are written. Errors: those of
  /// AtomicFile::write.
  void keep();

  /// Puts bytes at an offset of a sample's row. Errors: those of
  /// AtomicFile::write_at; Errc::internal beyond the row.
  void write(std::uint64_t index, std::uint64_t offset,
             std::span<const std::byte> bytes);
  /// The row is whole, so a later run may take it. Errors: those of
  /// AtomicFile::write_at and read_at.
  void seal(std::uint64_t index);
  /// The row counts from now on.
  void complete(std::uint64_t index);
  /// Bytes that `commit` reads once more: rows behind a gap, which it moves, or
  /// all of a .npz, for its checksum.
  [[nodiscard]] std::uint64_t commit_bytes() const;

  /// Makes the file of the rows that count, in index order; no file if none
  /// does. Once only. Errors: those of AtomicFile::commit.
  void commit();

 private:
  [[nodiscard]] std::uint64_t num_bytes() const;
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t index) const;
  void write_hash(std::uint64_t index, std::uint64_t hash);
  void join_rows();

  Rows rows_;
  std::string ending_;
  std::uint64_t begin_ = 0;  ///< of the elements in the file
  std::vector<bool> is_complete_;
  bool has_sealed_ = false;
  AtomicFile file_;
};

}  // namespace troupe::actors

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "kernels/core/atomic_file.h"
#include "kernels/core/tensor.h"

namespace troupe::actors {

/// A file of one f32 tensor [m, …] with a row per sample, of the kind that its
/// ending says (tensor_file.h). Rows are written as they come, in any order,
/// and none is held in memory. The file appears with `commit`, whole.
/// Thread: one.
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

  /// Takes the room of all rows. Errors: those of AtomicFile.
  RowFile(const std::filesystem::path& path, Rows rows, const FileRule& rule);

  /// Puts bytes at an offset of a sample's row. Errors: those of
  /// AtomicFile::write_at; Errc::internal beyond the row.
  void write(std::uint64_t index, std::uint64_t offset,
             std::span<const std::byte> bytes);
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
  void join_rows();

  Rows rows_;
  std::string ending_;
  std::uint64_t begin_ = 0;  ///< of the elements in the file
  std::vector<bool> is_complete_;
  AtomicFile file_;
};

}  // namespace troupe::actors

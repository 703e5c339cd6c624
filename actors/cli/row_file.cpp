#include "actors/cli/row_file.h"

#include <algorithm>
#include <functional>
#include <system_error>
#include <utility>

#include "actors/artefacts/crc32.h"
#include "actors/artefacts/npz.h"
#include "kernels/core/error.h"
#include "kernels/core/system.h"
#include "models/safetensors.h"

namespace troupe::actors {
namespace {

using Bytes = std::vector<std::byte>;

/// What stands around the elements.
struct Frame {
  Bytes head;
  Bytes tail;
};

/// The frame of a file of `count` rows. The head has the same length for every
/// count, because rows are written before the count is known.
/// `crc_behind(crc)` goes on with a CRC-32 over the elements.
Frame frame_of(const std::string& ending, const RowFile::Rows& rows,
               std::uint64_t count,
               const std::function<std::uint32_t(std::uint32_t)>& crc_behind) {
  const auto shape_of = [&](std::uint64_t number) {
    return with_rows(static_cast<std::int64_t>(number), rows.shape);
  };
  const Shape all = shape_of(rows.samples.size());
  if (ending == ".safetensors") {
    const std::size_t least =
        models::safetensors_head(rows.name, DType::f32, all).size();
    const std::string text =
        models::safetensors_head(rows.name, DType::f32, shape_of(count), least);
    const auto bytes = std::as_bytes(std::span(text));
    return {{bytes.begin(), bytes.end()}, {}};
  }
  Bytes inner =
      npy_head(DType::f32, shape_of(count), npy_head(DType::f32, all).size());
  if (ending == ".npy") {
    return {std::move(inner), {}};
  }
  NpzFrame archive;
  Bytes head = archive.begin(rows.name, inner.size() + count * rows.row_bytes(),
                             crc_behind(crc32(inner)));
  head.insert(head.end(), inner.begin(), inner.end());
  return {std::move(head), archive.end()};
}

Frame whole_frame(const std::string& ending, const RowFile::Rows& rows) {
  return frame_of(ending, rows, rows.samples.size(),
                  [](std::uint32_t) { return 0; });
}

/// Does something for every piece of `size` bytes: piece(offset, bytes).
template <typename Piece>
void for_each_piece(std::uint64_t size, const Piece& piece) {
  Bytes buffer(std::min<std::uint64_t>(size, std::uint64_t{1} << 20U));
  for (std::uint64_t at = 0; at < size; at += buffer.size()) {
    piece(at, std::span(buffer).first(
                  std::min<std::uint64_t>(buffer.size(), size - at)));
  }
}

}  // namespace

std::uint64_t RowFile::Rows::row_bytes() const {
  return static_cast<std::uint64_t>(shape.num_elements()) * sizeof(float);
}

void RowFile::check_room(const std::string& place,
                         const std::filesystem::path& path, const Rows& rows) {
  const Frame frame = whole_frame(path.extension(), rows);
  const std::uint64_t needed = frame.head.size() + frame.tail.size() +
                               rows.samples.size() * rows.row_bytes();
  std::filesystem::path folder = path.parent_path();
  std::error_code error;
  const auto space =
      std::filesystem::space(folder.empty() ? "." : folder, error);
  // Some file systems do not say how large they are.
  require(error || space.capacity == 0 || needed <= space.available,
          Errc::no_space, place,
          "the disk has too little room for " + path.string() + ": got " +
              human_bytes(space.available) + " free, expected " +
              human_bytes(needed),
          "name a file on another disk, or make fewer samples at a time with "
          "--samples A:B");
}

RowFile::RowFile(const std::filesystem::path& path, Rows rows,
                 const FileRule& rule)
    : rows_(std::move(rows)),
      ending_(path.extension()),
      begin_(whole_frame(ending_, rows_).head.size()),
      is_complete_(rows_.samples.size(), false),
      file_(path, rule) {
  file_.reserve(begin_ + rows_.samples.size() * rows_.row_bytes());
}

void RowFile::write(std::uint64_t index, std::uint64_t offset,
                    std::span<const std::byte> bytes) {
  require(offset + bytes.size() <= rows_.row_bytes(), Errc::internal,
          "artefacts", "more than a sample's row holds");
  file_.write_at(
      begin_ + (index - rows_.samples.begin) * rows_.row_bytes() + offset,
      bytes);
}

void RowFile::complete(std::uint64_t index) {
  is_complete_[static_cast<std::size_t>(index - rows_.samples.begin)] = true;
}

std::uint64_t RowFile::commit_bytes() const {
  if (ending_ == ".npz") {
    return num_bytes();
  }
  const auto gap = std::ranges::find(is_complete_, false);
  return rows_.row_bytes() *
         static_cast<std::uint64_t>(std::count(gap, is_complete_.end(), true));
}

/// Of the rows that count.
std::uint64_t RowFile::num_bytes() const {
  return rows_.row_bytes() *
         static_cast<std::uint64_t>(std::ranges::count(is_complete_, true));
}

/// Moves the rows that count together.
void RowFile::join_rows() {
  std::uint64_t to = begin_;
  for (std::size_t i = 0; i < is_complete_.size(); ++i) {
    if (!is_complete_[i]) {
      continue;
    }
    const std::uint64_t from = begin_ + i * rows_.row_bytes();
    if (from != to) {
      for_each_piece(rows_.row_bytes(),
                     [&](std::uint64_t at, std::span<std::byte> bytes) {
                       file_.read_at(from + at, bytes);
                       file_.write_at(to + at, bytes);
                     });
    }
    to += rows_.row_bytes();
  }
}

void RowFile::commit() {
  const std::uint64_t size = num_bytes();
  if (size == 0) {
    return;
  }
  join_rows();
  const Frame frame = frame_of(
      ending_, rows_, size / rows_.row_bytes(), [&](std::uint32_t crc) {
        for_each_piece(size, [&](std::uint64_t at, std::span<std::byte> bytes) {
          file_.read_at(begin_ + at, bytes);
          crc = crc32(bytes, crc);
        });
        return crc;
      });
  file_.write_at(0, frame.head);
  file_.write_at(begin_ + size, frame.tail);
  file_.cut(begin_ + size + frame.tail.size());
  file_.commit();
}

}  // namespace troupe::actors

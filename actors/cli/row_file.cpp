#include "actors/cli/row_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "actors/artefacts/crc32.h"
#include "actors/artefacts/npz.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/system/machine.h"
#include "models/files/safetensors.h"

namespace troupe::actors {
namespace {

using Bytes = std::vector<std::byte>;

std::uint64_t row_bytes_of(const Shape& shape) {
  return static_cast<std::uint64_t>(shape.num_elements()) * sizeof(float);
}

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

// A file without an end: a line that says what follows (Left), the rows at the
// places where they will be, and behind them the hash of each sealed row, or 0.

constexpr const char* kLeftFormat = "troupe rows 1 {} {} {}\n";
constexpr std::size_t kMostLeftText = 64;

struct Left {
  std::uint64_t begin = 0;  ///< of the rows
  std::uint64_t count = 0;
  std::uint64_t row_bytes = 0;
};

/// Nothing for a file without that line, or without all that it says.
std::optional<Left> left_in(std::ifstream& file, std::uint64_t size) {
  std::string text(kMostLeftText, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  file.clear();
  Left left;
  if (std::sscanf(text.c_str(),
                  "troupe rows 1 %" SCNu64 " %" SCNu64 " %" SCNu64, &left.begin,
                  &left.count, &left.row_bytes) != 3) {
    return std::nullopt;
  }
  const std::uint64_t each = left.row_bytes + sizeof(std::uint64_t);
  const bool fits = left.begin <= size && left.row_bytes > 0 &&
                    left.row_bytes <= size &&
                    left.count <= (size - left.begin) / each;
  return fits ? std::optional(left) : std::nullopt;
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

std::uint64_t RowFile::Rows::row_bytes() const { return row_bytes_of(shape); }

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

void RowFile::for_each_left(const std::filesystem::path& path,
                            const Shape& shape,
                            const std::function<void(Tensor)>& row) {
  const std::filesystem::path left_at = AtomicFile::kept_path(path);
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(left_at, error);
  std::ifstream file(left_at, std::ios::binary);
  const auto left = !error && file ? left_in(file, size) : std::nullopt;
  if (!left || left->row_bytes != row_bytes_of(shape)) {
    return;
  }
  std::vector<std::uint64_t> hashes(left->count);
  const auto go_to_row = [&](std::uint64_t i) {
    file.seekg(static_cast<std::streamoff>(left->begin + i * left->row_bytes));
  };
  go_to_row(left->count);
  file.read(reinterpret_cast<char*>(hashes.data()),
            static_cast<std::streamsize>(hashes.size() * sizeof(hashes[0])));
  // Where rows were being moved together, a row may lie in another's place.
  const std::set<std::uint64_t> sealed(hashes.begin(), hashes.end());
  for (std::uint64_t i = 0; file && i < left->count; ++i) {
    Tensor tensor(shape, DType::f32);
    go_to_row(i);
    file.read(reinterpret_cast<char*>(tensor.bytes().data()),
              static_cast<std::streamsize>(tensor.num_bytes()));
    if (file && sealed.contains(xxh3_64(std::as_const(tensor).bytes()))) {
      row(std::move(tensor));
    }
  }
}

RowFile::RowFile(const std::filesystem::path& path, Rows rows,
                 const FileRule& rule)
    : rows_(std::move(rows)),
      ending_(path.extension()),
      begin_(whole_frame(ending_, rows_).head.size()),
      is_complete_(rows_.samples.size(), false),
      file_(path, rule) {
  file_.reserve(begin_ + rows_.samples.size() * rows_.row_bytes());
  write_hash(rows_.samples.end - 1, 0);  // so that all hashes are there
}

RowFile::~RowFile() {
  if (!has_sealed_) {
    file_.remove();
  }
}

void RowFile::keep() {
  std::string text =
      fmt::format(kLeftFormat, begin_, rows_.samples.size(), rows_.row_bytes());
  text.resize(std::max<std::size_t>(text.size(), kMostLeftText), '\0');
  if (text.size() <= begin_) {  // as all heads are
    file_.write_at(0, std::as_bytes(std::span(text)));
    file_.keep();
  }
}

std::uint64_t RowFile::offset_of(std::uint64_t index) const {
  return begin_ + (index - rows_.samples.begin) * rows_.row_bytes();
}

void RowFile::write_hash(std::uint64_t index, std::uint64_t hash) {
  file_.write_at(offset_of(rows_.samples.end) +
                     (index - rows_.samples.begin) * sizeof(hash),
                 std::as_bytes(std::span(&hash, 1)));
}

void RowFile::write(std::uint64_t index, std::uint64_t offset,
                    std::span<const std::byte> bytes) {
  require(offset + bytes.size() <= rows_.row_bytes(), Errc::internal,
          "artefacts", "more than a sample's row holds");
  file_.write_at(offset_of(index) + offset, bytes);
}

void RowFile::seal(std::uint64_t index) {
  Xxh3Stream hash;
  for_each_piece(rows_.row_bytes(),
                 [&](std::uint64_t at, std::span<std::byte> bytes) {
                   file_.read_at(offset_of(index) + at, bytes);
                   hash.update(bytes);
                 });
  write_hash(index, hash.digest());
  has_sealed_ = true;
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
    file_.remove();
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
  file_.write_at(begin_ + size, frame.tail);
  file_.cut(begin_ + size + frame.tail.size());
  file_.write_at(0, frame.head);
  file_.commit();
}

}  // namespace troupe::actors

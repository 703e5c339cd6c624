#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/boundary.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/tensor.h"

namespace troupe {
class ThreadPool;
}

namespace troupe::models {

/// Element types of the file format. Tensor has only some of them.
enum class FileDType : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64
};

/// "BF16", as the file spells it.
[[nodiscard]] std::string_view to_string(FileDType dtype) noexcept;
/// The type of a Tensor that is read from elements of `dtype`, if there is one.
/// f64 becomes f32; other types keep their values.
[[nodiscard]] std::optional<DType> tensor_dtype(FileDType dtype) noexcept;

/// One tensor of a file; offsets count from the end of the header.
struct SafetensorsEntry {
  std::string_view name;  ///< lives as long as the header
  FileDType dtype = FileDType::f32;
  Shape shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader;

/// The tensors of a header, sorted by name. A header of 100 MB can list two
/// million of them, so only the text and a Record of 32 bytes for each are
/// kept; an entry is made when it is asked for.
class SafetensorsEntries {
 public:
  /// `name` and `shape` are positions in the text.
  struct Record {
    std::uint32_t name = 0;
    std::uint32_t name_size = 0;
    std::uint32_t shape = 0;
    FileDType dtype = FileDType::f32;
    std::uint8_t rank = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  class Iterator {
   public:
    Iterator(const SafetensorsEntries& entries, std::size_t index)
        : entries_(&entries), index_(index) {}
    SafetensorsEntry operator*() const { return (*entries_)[index_]; }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    bool operator!=(const Iterator& other) const {
      return index_ != other.index_;
    }

   private:
    const SafetensorsEntries* entries_;
    std::size_t index_;
  };

  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  [[nodiscard]] bool empty() const noexcept { return records_.empty(); }
  [[nodiscard]] SafetensorsEntry operator[](std::size_t index) const;
  [[nodiscard]] std::string_view name(std::size_t index) const {
    return name_of(records_[index]);
  }
  /// Bytes of all tensors, as stored.
  [[nodiscard]] std::uint64_t data_bytes() const noexcept;
  [[nodiscard]] Iterator begin() const { return {*this, 0}; }
  [[nodiscard]] Iterator end() const { return {*this, size()}; }
  /// Nothing when there is no such tensor.
  [[nodiscard]] std::optional<SafetensorsEntry> find(
      std::string_view name) const;

 private:
  friend SafetensorsHeader parse_safetensors_header(std::string json,
                                                    std::uint64_t data_bytes,
                                                    std::string_view place);
  [[nodiscard]] std::string_view name_of(const Record& record) const;
  void sort_by_name(std::string_view place);
  void check_tiling(std::uint64_t data_bytes, std::string_view place) const;

  std::shared_ptr<const std::string> text_;
  std::vector<Record> records_;
};

struct SafetensorsHeader {
  SafetensorsEntries entries;
  /// "__metadata__"; lives as long as the entries.
  std::map<std::string_view, std::string_view> metadata;
};

/// Checks every rule of the format: one JSON object without duplicate keys,
/// known dtypes, sizes that match shapes, tensors that cover [0, data_bytes)
/// without gap or overlap. `json` is kept; further allocations are smaller than
/// `json`.
/// Errors: Errc::corrupt_file naming `place` and the tensor.
/// Source: huggingface/safetensors, safetensors/src/tensor.rs.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(
    std::string json, std::uint64_t data_bytes, std::string_view place);

/// One file. It is read by pread, not mapped: so a file that shrinks meanwhile
/// is an error and not a signal. Thread: reads may run at once.
class SafetensorsFile {
 public:
  /// Opens and checks the header. Errors: Errc::not_found, Errc::io,
  /// Errc::corrupt_file.
  explicit SafetensorsFile(std::filesystem::path path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept {
    return path_;
  }
  [[nodiscard]] const SafetensorsHeader& header() const noexcept {
    return header_;
  }
  /// Nothing when there is no such tensor.
  [[nodiscard]] std::optional<SafetensorsEntry> find(
      std::string_view name) const {
    return header_.entries.find(name);
  }

  /// Fills `out` (same number of elements), converting to its dtype. The
  /// threads of `pool`, if there is one, read a part each.
  /// Errors: Errc::non_finite for a NaN or infinity among floating-point
  /// elements, as stored or after the conversion; Errc::unsupported for a dtype
  /// tensors cannot hold; Errc::shape_mismatch; Errc::corrupt_file when the
  /// file ends early.
  void read(const SafetensorsEntry& entry, Tensor& out,
            ThreadPool* pool = nullptr) const;
  /// A new tensor in the file's dtype, or in `as`.
  [[nodiscard]] Tensor read(const SafetensorsEntry& entry,
                            std::optional<DType> as = {}) const;
  /// Lets the system fetch the tensor in the background, because it will be
  /// read soon.
  void will_read(const SafetensorsEntry& entry) const noexcept;
  /// The tensor's bytes as they are stored, unchecked.
  [[nodiscard]] std::vector<std::byte> stored_bytes(
      const SafetensorsEntry& entry) const;

 private:
  void read_bytes(const SafetensorsEntry& entry, std::uint64_t offset,
                  std::span<std::byte> out) const;
  /// Elements [begin, end), in the dtype of `out`.
  void read_converted(const SafetensorsEntry& entry, std::size_t begin,
                      std::size_t end, Tensor& out) const;
  /// Throws for a NaN or infinity among elements [begin, end) of `out`.
  void check_narrowed(const SafetensorsEntry& entry, const Tensor& out,
                      std::size_t begin, std::size_t end) const;

  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t data_offset_ = 0;
  SafetensorsHeader header_;
};

/// The tensors of a model: in one file, or in the shards that an index names.
class TensorFiles {
 public:
  explicit TensorFiles(const std::vector<std::filesystem::path>& files);
  /// `index` is "….safetensors.index.json"; shards lie beside it. Errors:
  /// Errc::corrupt_file for shard names with a path separator or "..",
  /// tensors listed but absent; Errc::not_found for missing shards.
  [[nodiscard]] static TensorFiles from_index(
      const std::filesystem::path& index);

  struct Found {
    const SafetensorsFile* file = nullptr;
    SafetensorsEntry entry;
  };
  [[nodiscard]] std::optional<Found> find(std::string_view name) const;
  [[nodiscard]] const std::vector<std::unique_ptr<SafetensorsFile>>& files()
      const noexcept {
    return files_;
  }
  /// Bytes of all tensors, as stored.
  [[nodiscard]] std::uint64_t data_bytes() const noexcept;
  [[nodiscard]] std::size_t num_tensors() const noexcept;

 private:
  TensorFiles() = default;

  /// A tensor of a shard.
  struct Place {
    std::uint32_t file;
    std::uint32_t entry;
  };
  [[nodiscard]] std::string_view name_of(const Place& place) const;
  /// Errors: Errc::corrupt_file for a tensor that is in two files.
  void index();

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<Place> by_name_;  ///< sorted; only where there are several files
};

/// What stands before the elements of one tensor in a file: at least `least`
/// bytes, the last of them spaces.
[[nodiscard]] std::string safetensors_head(const std::string& name, DType dtype,
                                           const Shape& shape,
                                           std::size_t least = 0);

/// Writes the tensors to `path` as an AtomicFile.
/// Errors: those of write_file; Errc::invalid_argument for a name twice.
void write_safetensors(const std::filesystem::path& path,
                       std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {},
                       const FileRule& rule = {});

}  // namespace troupe::models

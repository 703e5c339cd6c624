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

#include "kernels/core/atomic_file.h"
#include "kernels/core/boundary.h"
#include "kernels/core/tensor.h"

namespace troupe::models {

/// Element types of the file format, more than tensors can hold.
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
/// The tensor type that holds `dtype` without loss, if there is one (f64
/// narrows to f32).
[[nodiscard]] std::optional<DType> tensor_dtype(FileDType dtype) noexcept;

/// One tensor of a file; offsets count from the end of the header.
struct SafetensorsEntry {
  std::string name;
  FileDType dtype = FileDType::f32;
  Shape shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        ///< by name
  std::map<std::string, std::string> metadata;  ///< "__metadata__"
};

/// Checks every rule of the format: one JSON object without duplicate keys,
/// known dtypes, sizes that match shapes, tensors that tile [0, data_bytes).
/// What is allocated is proportional to `json`.
/// Errors: Errc::corrupt_file naming `place` and the tensor.
/// Source: huggingface/safetensors, safetensors/src/tensor.rs.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(
    std::string_view json, std::uint64_t data_bytes, std::string_view place);

/// One file, read by pread: a file that shrinks while it is read is an error,
/// not a signal. Thread: reads may run at once.
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
  /// Null when there is no such tensor.
  [[nodiscard]] const SafetensorsEntry* find(std::string_view name) const;

  /// Fills `out` (same number of elements), converting to its dtype.
  /// Errors: Errc::non_finite for a NaN or infinity among floating-point
  /// elements, as stored or after the conversion; Errc::unsupported for a dtype
  /// tensors cannot hold; Errc::shape_mismatch; Errc::corrupt_file when the
  /// file ends early.
  void read(const SafetensorsEntry& entry, Tensor& out) const;
  /// A new tensor in the file's dtype, or in `as`.
  [[nodiscard]] Tensor read(const SafetensorsEntry& entry,
                            std::optional<DType> as = {}) const;
  /// The tensor's bytes as they are stored, whatever they hold.
  [[nodiscard]] std::vector<std::byte> stored_bytes(
      const SafetensorsEntry& entry) const;

 private:
  void read_bytes(const SafetensorsEntry& entry, std::uint64_t offset,
                  std::span<std::byte> out) const;
  /// Elements [begin, end) of `out`, after a conversion.
  void check_narrowed(const SafetensorsEntry& entry, const Tensor& out,
                      std::size_t begin, std::size_t end) const;

  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t data_offset_ = 0;
  SafetensorsHeader header_;
};

/// The tensors of a model: one file, or the shards that an index names.
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
    const SafetensorsEntry* entry = nullptr;
  };
  [[nodiscard]] std::optional<Found> find(std::string_view name) const;
  [[nodiscard]] const std::vector<std::unique_ptr<SafetensorsFile>>& files()
      const noexcept {
    return files_;
  }
  /// Sum over all tensors, as stored.
  [[nodiscard]] std::uint64_t data_bytes() const noexcept;
  [[nodiscard]] std::size_t num_tensors() const noexcept {
    return by_name_.size();
  }

 private:
  TensorFiles() = default;
  const SafetensorsFile& add(const std::filesystem::path& path);

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Found, std::less<>> by_name_;
};

/// Writes the tensors to `path` (temporary name, then rename).
/// Errors: those of write_file; Errc::invalid_argument for a name twice.
void write_safetensors(const std::filesystem::path& path,
                       std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {},
                       const FileRule& rule = {});

}  // namespace troupe::models

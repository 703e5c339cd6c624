#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/boundary.h"

namespace troupe::actors {

/// NumPy's .npy format 1.0 of a host tensor (f32, i64 or u8; row-major).
/// Source: numpy/lib/format.py.
[[nodiscard]] std::vector<std::byte> encode_npy(const Tensor& tensor);

/// What stands before the elements in it: at least `least` bytes.
[[nodiscard]] std::vector<std::byte> npy_head(DType dtype, const Shape& shape,
                                              std::size_t least = 0);

/// A .npz of which somebody else writes the members.
class NpzFrame {
 public:
  /// What stands before the member `name`.npy of `size` bytes, head included,
  /// with that CRC-32.
  [[nodiscard]] std::vector<std::byte> begin(const std::string& name,
                                             std::uint64_t size,
                                             std::uint32_t crc);
  /// What stands behind the last one.
  [[nodiscard]] std::vector<std::byte> end();

  /// Bytes of an archive that the plain zip format can count.
  static constexpr std::uint64_t kMostBytes = 0xFFFFFFFFU;

 private:
  std::vector<std::byte> directory_;
  std::uint64_t offset_ = 0;
  std::size_t members_ = 0;
};

/// NumPy's .npz: a zip archive of .npy files, stored without compression and
/// with a fixed date, so that equal tensors give equal files.
/// Errors: Errc::unsupported above 4 GiB (the plain zip format's limit).
[[nodiscard]] std::vector<std::byte> encode_npz(
    std::span<const NamedTensor> tensors);

/// A .npy file before its elements are understood.
struct NpyView {
  std::string descr;  ///< NumPy's name of the element type: "<f4"
  Shape shape;
  std::span<const std::byte> data;  ///< of the file it was made from
  bool is_fortran = false;          ///< the first axis is the fastest
};

/// Checks the header and that the elements are all there.
/// Errors: Errc::corrupt_file, Errc::unsupported.
[[nodiscard]] NpyView view_npy(const std::string& place,
                               std::span<const std::byte> bytes);

/// The elements with the last axis as the fastest, as tensors have them.
[[nodiscard]] std::vector<std::byte> row_major(const NpyView& array);

/// Floating-point numbers become f32, bytes u8, other whole numbers i64.
/// Errors: Errc::unsupported for another type.
[[nodiscard]] Tensor tensor_of(const std::string& place, const NpyView& array);

/// As tensor_of, of a whole file.
/// Errors: Errc::corrupt_file, Errc::unsupported.
[[nodiscard]] Tensor decode_npy(const std::string& place,
                                std::span<const std::byte> bytes);

struct NpzMember {
  std::string name;   ///< without ".npy"
  std::string place;  ///< for messages: the archive's and the name
  std::span<const std::byte> file;  ///< of the archive it was made from
};

/// The files of a .npz whose members are stored, not compressed.
/// Errors: Errc::corrupt_file, Errc::unsupported for np.savez_compressed.
[[nodiscard]] std::vector<NpzMember> view_npz(const std::string& place,
                                              std::span<const std::byte> bytes);

}  // namespace troupe::actors

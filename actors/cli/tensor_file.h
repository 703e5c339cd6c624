#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/boundary.h"
#include "kernels/core/fields.h"
#include "kernels/core/system/atomic_file.h"

namespace troupe::actors {

/// Tensors in files of the kind their endings say: .safetensors, .npz or .npy.
/// Errors of all functions that read, beside their own: Errc::not_found,
/// Errc::io, Errc::corrupt_file, Errc::unsupported (compressed archives,
/// Fortran order, records), Errc::invalid_argument for another ending.

/// Errors: Errc::invalid_argument unless `path` ends in a known way.
void check_tensor_path(const std::string& place,
                       const std::filesystem::path& path);

/// Writes tensors by name; a .npy takes one tensor and loses its name. Whole or
/// not at all.
/// Errors: Errc::invalid_argument for several in a .npy; those of write_file.
void write_tensors(const std::filesystem::path& path,
                   std::span<const NamedTensor> tensors,
                   const FileRule& rule = {});

/// A tensor as a file stores it, nothing converted and nothing refused.
struct StoredTensor {
  std::string name;
  std::string dtype;  ///< as safetensors spells it: "F32"
  Shape shape;
  std::uint64_t num_bytes = 0;
  std::vector<std::byte> bytes = {};  ///< empty: only shapes were asked for
};

void visit_fields(auto& visit, AnyConst<StoredTensor> auto& r) {
  visit({"name", "name"}, r.name);
  visit({"dtype", "type of an element, as stored"}, r.dtype);
  visit({"shape", "[extent, …]"}, to_string(r.shape));
  visit({"bytes", "bytes in the file"}, r.num_bytes);
}

/// Sorted by name; that of a .npy is "latents".
[[nodiscard]] std::vector<StoredTensor> read_stored(
    const std::filesystem::path& path, bool with_bytes = true);

/// As tensors to compute with. Errors: also Errc::unsupported for element types
/// that none has, Errc::invalid_argument for NaN or infinity in a .safetensors.
[[nodiscard]] std::vector<NamedTensor> read_tensors(
    const std::filesystem::path& path);

/// The latents in a file: the tensor "latents", or the only one. As f32
/// [n, C, H, W]; [C, H, W] counts as n = 1.
/// Errors: as read_tensors; Errc::shape_mismatch unless C, H, W are
/// `latent_shape`; Errc::non_finite.
[[nodiscard]] Tensor read_latents(const std::filesystem::path& path,
                                  const Shape& latent_shape);
/// The same of the tensor "trajectory", [n, calls + 1, C, H, W].
[[nodiscard]] Tensor read_trajectories(const std::filesystem::path& path,
                                       const Shape& trajectory_shape);

}  // namespace troupe::actors

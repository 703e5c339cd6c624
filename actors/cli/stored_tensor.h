#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/core/shape.h"

namespace troupe::actors {

/// A tensor as a file stores it, nothing converted and nothing refused.
struct StoredTensor {
  std::string name;
  std::string dtype;  ///< as safetensors spells it: "F32"
  Shape shape;
  std::uint64_t num_bytes = 0;
  std::vector<std::byte> bytes;  ///< empty where only shapes were asked for
};

/// The tensors of a .safetensors, .npz or .npy file, by name; that of a .npy
/// is "latents". Errors: Errc::not_found, Errc::io, Errc::corrupt_file,
/// Errc::unsupported (compressed archives, Fortran order, records).
[[nodiscard]] std::vector<StoredTensor> read_stored(
    const std::filesystem::path& path);

/// The same without their bytes.
[[nodiscard]] std::vector<StoredTensor> read_stored_shapes(
    const std::filesystem::path& path);

/// In what two tensors differ; empty: in nothing.
[[nodiscard]] std::string difference(const StoredTensor& a,
                                     const StoredTensor& b);

}  // namespace troupe::actors

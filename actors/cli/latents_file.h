#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/atomic_file.h"
#include "kernels/core/boundary.h"

namespace troupe::actors {

/// Latents of ten thousand large images; more is a mistake.
inline constexpr std::size_t kMaxTensorFileBytes = std::size_t{4} << 30U;

/// Tensors by name to a file of the kind its ending says: .safetensors, .npz or
/// .npy (one tensor, its name is lost). Whole or not at all. Errors:
/// Errc::invalid_argument for several in a .npy; those of write_file.
void write_tensors(const std::filesystem::path& path,
                   std::span<const NamedTensor> tensors,
                   const FileRule& rule = {});

/// Errors: Errc::invalid_argument unless `path` ends in a known way.
void check_tensor_path(const std::string& place,
                       const std::filesystem::path& path);

/// Reads .safetensors, .npz or .npy. Errors: Errc::not_found,
/// Errc::corrupt_file, Errc::unsupported.
[[nodiscard]] std::vector<NamedTensor> read_tensors(
    const std::filesystem::path& path);

/// The latents in a file: the tensor "latents", or the only one. As f32
/// [n, C, H, W]; [C, H, W] counts as n = 1.
/// Errors: as read_tensors; Errc::shape_mismatch unless C, H, W are
/// `latent_shape`; Errc::non_finite.
[[nodiscard]] Tensor read_latents(const std::filesystem::path& path,
                                  const Shape& latent_shape);

}  // namespace troupe::actors

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/core/tensor.h"
#include "models/files/safetensors.h"

namespace troupe::models {

/// Numbers as a file stores them, for the types that tensors can hold.
/// Thread: any.

[[nodiscard]] bool is_float(FileDType dtype);
[[nodiscard]] std::size_t stored_bytes_of(FileDType dtype);
/// Index of the first NaN or infinity, or -1.
[[nodiscard]] std::int64_t first_non_finite(FileDType dtype,
                                            std::span<const std::byte> bytes);
/// Floating-point elements `from` become elements `begin`… of `out`, which is
/// f32 or bf16.
void convert_stored(FileDType dtype, std::span<const std::byte> from,
                    std::size_t begin, Tensor& out);

}  // namespace troupe::models

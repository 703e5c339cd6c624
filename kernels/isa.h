#pragma once

#include "kernels/core/isa_level.h"

namespace troupe::kernels {

/// "avx512_core_amx", "avx2"…: the instruction set that the matrix library
/// selected.
[[nodiscard]] const char* cpu_isa();

/// "AVX3", "AVX2"…: the instruction set of our own vector loops. Its width
/// decides in which order norms and softmax add. ONEDNN_MAX_CPU_ISA has no
/// influence on it.
[[nodiscard]] const char* vector_isa();

/// The highest level that this processor has.
[[nodiscard]] IsaLevel highest_isa();

/// Whether the instruction set that the matrix library selected multiplies
/// bfloat16 by itself. Without it the library only imitates such products.
[[nodiscard]] bool has_native_bf16();

/// Holds the matrix library and our vector loops to a level, in every thread,
/// until the process ends, so that unlike processors compute the same bytes.
/// ONEDNN_MAX_CPU_ISA is then ignored.
/// Errors: Errc::unsupported where the processor has less; Errc::internal where
/// something was computed, or asked of `cpu_isa`, before.
void hold_isa(IsaLevel level);

}  // namespace troupe::kernels

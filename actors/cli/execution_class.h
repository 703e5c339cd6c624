#pragma once

#include <cstdint>
#include <string>

#include "kernels/core/dtype.h"
#include "samplers/options.h"

namespace troupe::actors {

/// Names the conditions under which equal recipes give equal bytes: weights,
/// build, library versions, selected instruction set, dtype and the logical
/// plan (every exact method has the sequential one). Sixteen hexadecimal
/// digits.
[[nodiscard]] std::string execution_class(
    std::uint64_t weights_hash, DType compute,
    const samplers::MethodOptions& method);

/// The instruction set that the matrix library and our kernels use here, as
/// "avx512_core_bf16/AVX3_SPR".
[[nodiscard]] std::string selected_isa();

/// bf16 where the processor multiplies it natively, else f32.
[[nodiscard]] DType automatic_dtype();

}  // namespace troupe::actors

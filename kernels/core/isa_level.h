#pragma once

#include <cstdint>

namespace troupe {

/// Levels of a processor's instruction sets; each includes those before it.
enum class IsaLevel : std::uint8_t {
  avx2,         ///< with FMA: the least that Troupe runs on
  avx512,       ///< F, BW, DQ, VL
  avx512_bf16,  ///< products of bfloat16
  amx           ///< the tile unit
};

}  // namespace troupe

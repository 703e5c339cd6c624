#pragma once

#include <cstdint>

namespace troupe {

/// How ranks divide attention over all tokens. Both give the same bytes.
enum class AttentionPlan : std::uint8_t {
  /// Each rank gets all keys and values, and has its own tokens' queries.
  gather,
  /// Each rank gets queries, keys and values of some heads, and returns the
  /// output of these heads. Source: Jacobs et al. 2023, arXiv:2309.14509
  /// (DeepSpeed Ulysses).
  ulysses
};

/// How GPUs that compute a pass together exchange: by copies between their
/// memories, or through NCCL (net/nccl.h). The bytes are the same.
enum class GpuExchange : std::uint8_t { peer, nccl };

}  // namespace troupe

#pragma once

#include <cstdint>

#include "kernels/core/dtype.h"

namespace troupe::models {

/// What operations on the CPU take for a worker's threads, beside what stands
/// in the forecast of activations. Estimates: patches and copies grow with the
/// model, the few rows that a linear layer cuts are left out.
struct ThreadScratch {
  std::uint64_t attention = 0;    ///< of one thread, for the largest attention
  std::uint64_t convolution = 0;  ///< of one thread, for the widest one

  void add_attention(std::int64_t keys, std::int64_t head_dim, DType compute);
  /// `columns`: input channels times the kernel's area.
  void add_convolution(std::int64_t columns, DType compute);
  void add(const ThreadScratch& other);
  /// Bytes for a worker of so many threads. Attention of many threads shares
  /// its copies (kernels/attention.h).
  [[nodiscard]] std::uint64_t of(int threads) const;
};

}  // namespace troupe::models

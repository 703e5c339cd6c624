#pragma once

#include <cstdint>

#include "kernels/core/dtype.h"

namespace troupe::models {

/// Memory that operations on the CPU take for each thread of a worker, beside
/// the activations. An estimate: what a linear layer copies is left out.
struct ThreadScratch {
  std::uint64_t attention = 0;    ///< of one thread, for the largest attention
  std::uint64_t convolution = 0;  ///< of one thread, for the widest one

  void add(const ThreadScratch& other);
  /// Bytes for a worker of so many threads. Attention of many threads shares
  /// its copies (kernels/attention.h).
  [[nodiscard]] std::uint64_t of(int threads) const;
};

}  // namespace troupe::models

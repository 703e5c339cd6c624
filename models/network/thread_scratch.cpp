#include "models/network/thread_scratch.h"

#include <algorithm>

#include "kernels/attention.h"

namespace troupe::models {

void ThreadScratch::add(const ThreadScratch& other) {
  attention = std::max(attention, other.attention);
  convolution = std::max(convolution, other.convolution);
}

std::uint64_t ThreadScratch::of(int threads) const {
  const auto count = static_cast<std::uint64_t>(threads);
  if (count * attention <= kernels::kMostAttentionBytes) {
    return count * std::max(attention, convolution);
  }
  return std::max<std::uint64_t>(kernels::kMostAttentionBytes, attention) +
         count * convolution;
}

}  // namespace troupe::models

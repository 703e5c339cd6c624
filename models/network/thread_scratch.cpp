#include "models/network/thread_scratch.h"

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/conv2d.h"

namespace troupe::models {

void ThreadScratch::add_attention(std::int64_t keys, std::int64_t head_dim,
                                  DType compute) {
  if (keys > 0) {
    attention = std::max<std::uint64_t>(
        attention, kernels::attention_thread_bytes(keys, head_dim, compute));
  }
}

void ThreadScratch::add_convolution(std::int64_t columns, DType compute) {
  convolution = std::max<std::uint64_t>(
      convolution, kernels::conv2d_thread_bytes(columns, compute));
}

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

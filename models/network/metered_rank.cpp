#include "models/network/metered_rank.h"

#include <algorithm>

#include "kernels/row_blocks.h"

namespace troupe::models {

MeteredRank::MeteredRank(ExecContext& ctx, AttentionPlan plan, int rank,
                         int world_size)
    : ctx_(ctx), plan_(plan), rank_(rank), world_size_(world_size) {}

RowRange MeteredRank::rows_of(int rank, std::int64_t rows) const {
  const std::vector<double> shares(static_cast<std::size_t>(world_size_),
                                   1.0 / world_size_);
  return kernels::rows_by_shares(shares, rank, rows);
}

Tensor MeteredRank::share(
    const Shape& shape, DType dtype,
    const std::function<SharedBlocks(int rank)>& of_rank) {
  Tensor all = ctx_.empty(shape, dtype);
  const std::uint64_t bytes = all.num_bytes();
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer == rank_) {
      continue;
    }
    for (const SharedBlock& block :
         common_blocks(of_rank(peer), of_rank(rank_))) {
      received_bytes_ +=
          static_cast<std::uint64_t>(block.rows.size() * block.columns.size()) *
          size_of(dtype);
    }
  }
  if (shared_ == most_.size()) {
    most_.push_back(0);
  }
  most_[shared_] = std::max(most_[shared_], bytes);
  ++shared_;
  return all;
}

void MeteredRank::meet() {
  ++exchanges_;
  shared_ = 0;
}

std::uint64_t MeteredRank::shared_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const std::uint64_t bytes : most_) {
    sum += 2 * bytes;
  }
  return sum;
}

}  // namespace troupe::models

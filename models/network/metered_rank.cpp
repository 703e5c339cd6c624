#include "models/network/metered_rank.h"

#include <algorithm>

#include "kernels/row_blocks.h"

namespace troupe::models {

MeteredRank::MeteredRank(ExecContext& ctx, int rank, int world_size)
    : ctx_(ctx), rank_(rank), world_size_(world_size) {}

RowRange MeteredRank::rows_of(int rank, std::int64_t rows) const {
  const std::vector<double> shares(static_cast<std::size_t>(world_size_),
                                   1.0 / world_size_);
  return kernels::rows_by_shares(shares, rank, rows);
}

Tensor MeteredRank::share(const Shape& shape, DType dtype,
                          const std::function<SharedRows(int rank)>& of_rank) {
  Tensor all = ctx_.empty(shape, dtype);
  const std::uint64_t bytes = all.num_bytes();
  const SharedRows mine = of_rank(rank_);
  const std::uint64_t row_bytes =
      shape[0] == 0
          ? 0
          : bytes / static_cast<std::uint64_t>(shape[0]) -
                static_cast<std::uint64_t>(mine.first_column) * size_of(dtype);
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer == rank_) {
      continue;
    }
    for (const RowRange& rows : of_rank(peer).written) {
      received_bytes_ += row_bytes * static_cast<std::uint64_t>(
                                         intersection(rows, mine.read).size());
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

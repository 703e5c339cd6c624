#include "kernels/row_blocks.h"

#include <algorithm>
#include <cmath>

namespace troupe::kernels {

std::int64_t shard_block(std::int64_t rows, std::int64_t least) {
  std::int64_t block = least;
  while (block * kMostBlocks < rows) {
    block *= 2;
  }
  return block;
}

RowRange rows_by_shares(std::span<const double> shares, int rank,
                        std::int64_t rows) {
  const std::int64_t block_rows = shard_block(rows);
  const std::int64_t blocks = (rows + block_rows - 1) / block_rows;
  // The same sum for the end of a rank and the begin of the next one.
  const auto bound = [&](int r) {
    if (r == static_cast<int>(shares.size())) {
      return rows;
    }
    double before = 0;
    for (const double share : shares.first(static_cast<std::size_t>(r))) {
      before += share;
    }
    const auto block = static_cast<std::int64_t>(
        std::llround(before * static_cast<double>(blocks)));
    return std::min(block * block_rows, rows);
  };
  return {bound(rank), bound(rank + 1)};
}

RowRange key_block(std::int64_t blocks, std::int64_t block, std::int64_t keys) {
  if (keys < blocks * kRowBlock) {
    return {0, block == 0 ? keys : 0};
  }
  const std::int64_t count = (keys + kRowBlock - 1) / kRowBlock;
  // count · b ÷ blocks, rounded.
  const auto bound = [&](std::int64_t b) {
    return std::min((2 * count * b + blocks) / (2 * blocks) * kRowBlock, keys);
  };
  return {bound(block), bound(block + 1)};
}

}  // namespace troupe::kernels

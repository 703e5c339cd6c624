#include "kernels/row_blocks.h"

#include <algorithm>
#include <cmath>

namespace troupe::kernels {

RowRange rows_by_shares(std::span<const double> shares, int rank,
                        std::int64_t rows) {
  const std::int64_t blocks = (rows + kRowBlock - 1) / kRowBlock;
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
    return std::min(block * kRowBlock, rows);
  };
  return {bound(rank), bound(rank + 1)};
}

}  // namespace troupe::kernels

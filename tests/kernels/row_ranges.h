#pragma once

#include <cstdint>
#include <vector>

#include "kernels/row_blocks.h"

namespace troupe::kernels {

/// Rows of a stream.
struct RowRange {
  std::int64_t begin;
  std::int64_t end;
};

/// Every range of rows that begins and ends at a block, or ends with the item.
inline std::vector<RowRange> row_ranges(std::int64_t rows) {
  std::vector<RowRange> ranges;
  for (std::int64_t begin = 0; begin < rows; begin += kRowBlock) {
    for (std::int64_t end = begin + kRowBlock; end < rows; end += kRowBlock) {
      ranges.push_back({begin, end});
    }
    ranges.push_back({begin, rows});
  }
  return ranges;
}

}  // namespace troupe::kernels

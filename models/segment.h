#pragma once

namespace troupe::models {

/// Blocks [begin, end) of a network; end < 0 means to the last block.
struct SegmentRange {
  int begin = 0;
  int end = -1;

  friend bool operator==(const SegmentRange&, const SegmentRange&) = default;
};

}  // namespace troupe::models

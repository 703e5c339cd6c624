#pragma once

#include <cstdint>
#include <string_view>

namespace troupe::models {

/// Blocks [begin, end) of a network; end < 0 means to the last block.
struct SegmentRange {
  int begin = 0;
  int end = -1;

  friend bool operator==(const SegmentRange&, const SegmentRange&) = default;
};

/// The segment of a network of `num_layers` blocks, with an end < 0 replaced by
/// their number. `place` names the network in error messages.
/// Errors: Errc::invalid_argument for blocks that do not exist.
[[nodiscard]] SegmentRange checked_segment(std::string_view place,
                                           std::int64_t num_layers,
                                           SegmentRange segment);

/// Errors: Errc::invalid_argument unless an instance that holds `own` has
/// blocks [begin, end).
void check_owned(std::string_view place, SegmentRange own, int begin, int end);

}  // namespace troupe::models

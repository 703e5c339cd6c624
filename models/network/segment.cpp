#include "models/network/segment.h"

#include <string>

#include "kernels/core/error.h"

namespace troupe::models {

SegmentRange checked_segment(std::string_view place, std::int64_t num_layers,
                             SegmentRange segment) {
  if (segment.end < 0) {
    segment.end = static_cast<int>(num_layers);
  }
  if (segment.begin < 0 || segment.begin >= segment.end ||
      segment.end > num_layers) {
    throw Error(Errc::invalid_argument, place,
                "segment: got blocks " + std::to_string(segment.begin) +
                    " to " + std::to_string(segment.end) +
                    ", expected a part of 0 to " + std::to_string(num_layers),
                "use fewer segments");
  }
  return segment;
}

void check_owned(std::string_view place, SegmentRange own, int begin, int end) {
  if (begin < own.begin || end > own.end || begin > end) {
    throw Error(Errc::invalid_argument, place,
                "blocks: got " + std::to_string(begin) + " to " +
                    std::to_string(end) + ", expected a part of " +
                    std::to_string(own.begin) + " to " +
                    std::to_string(own.end));
  }
}

}  // namespace troupe::models

#include "actors/value_room.h"

#include <limits>

namespace troupe::actors {

std::uint64_t bytes_of(const samplers::LiveValues& values,
                       const ValueSizes& sizes) {
  return static_cast<std::uint64_t>(values.states) * sizes.state +
         static_cast<std::uint64_t>(values.outputs) * sizes.output +
         static_cast<std::uint64_t>(values.boundaries) * sizes.boundary +
         sizes.pixels;
}

void ValueRoom::set(int process, std::uint64_t budget,
                    std::uint64_t sample_bytes) {
  rooms_[process].most = budget == 0 || sample_bytes == 0
                             ? std::numeric_limits<std::uint64_t>::max()
                             : budget / sample_bytes;
}

bool ValueRoom::fits(int process) const {
  const Room* const room = rooms_.find(process);
  return room == nullptr || room->taken < room->most;
}

bool ValueRoom::could_fit(int process) const {
  const Room* const room = rooms_.find(process);
  return room == nullptr || room->most > 0;
}

bool ValueRoom::is_over(int process) const {
  const Room* const room = rooms_.find(process);
  return room != nullptr && room->taken > room->most;
}

void ValueRoom::take(int process) {
  if (Room* const room = rooms_.find(process)) {
    ++room->taken;
  }
}

void ValueRoom::give_back(int process) {
  if (Room* const room = rooms_.find(process)) {
    --room->taken;
  }
}

}  // namespace troupe::actors

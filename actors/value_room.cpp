#include "actors/value_room.h"

#include <array>
#include <limits>

namespace troupe::actors {

std::uint64_t bytes_of(const samplers::LiveValues& values,
                       const ValueSizes& sizes) {
  return static_cast<std::uint64_t>(values.states) * sizes.state +
         static_cast<std::uint64_t>(values.outputs) * sizes.output +
         static_cast<std::uint64_t>(values.boundaries) * sizes.boundary +
         static_cast<std::uint64_t>(values.skips) * sizes.skips +
         static_cast<std::uint64_t>(values.caches) * sizes.cache + sizes.pixels;
}

std::uint64_t bytes_of(const ValueSizes& sizes, samplers::ValueKind kind) {
  const std::array all = {sizes.state, sizes.output, sizes.boundary,
                          sizes.skips, sizes.pixels, sizes.cache};
  static_assert(all.size() == samplers::kNumValueKinds);
  return all.at(static_cast<std::size_t>(kind));
}

std::string to_string(const ValueMemory& memory) {
  const std::string process = "process " + std::to_string(memory.process);
  return memory.gpu < 0 ? process
                        : to_string(Device{DeviceKind::cuda, memory.gpu}) +
                              " of " + process;
}

void ValueRoom::set(ValueMemory memory, std::uint64_t budget,
                    std::uint64_t sample_bytes) {
  rooms_[memory].most = budget == 0 || sample_bytes == 0
                            ? std::numeric_limits<std::uint64_t>::max()
                            : budget / sample_bytes;
}

bool ValueRoom::fits(ValueMemory memory) const {
  const Room* const room = rooms_.find(memory);
  return room == nullptr || room->taken < room->most;
}

bool ValueRoom::could_fit(ValueMemory memory) const {
  const Room* const room = rooms_.find(memory);
  return room == nullptr || room->most > 0;
}

bool ValueRoom::is_over(ValueMemory memory) const {
  const Room* const room = rooms_.find(memory);
  return room != nullptr && room->taken > room->most;
}

void ValueRoom::take(ValueMemory memory) {
  if (Room* const room = rooms_.find(memory)) {
    ++room->taken;
  }
}

void ValueRoom::give_back(ValueMemory memory) {
  if (Room* const room = rooms_.find(memory)) {
    --room->taken;
  }
}

}  // namespace troupe::actors

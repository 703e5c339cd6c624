#include "actors/artefacts/crc32.h"

#include <array>

namespace troupe::actors {

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before) {
  static const std::array<std::uint32_t, 256> kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) {
        value = (value >> 1U) ^ ((value & 1U) != 0 ? 0xEDB88320U : 0U);
      }
      table[i] = value;
    }
    return table;
  }();
  std::uint32_t crc = ~before;
  for (const std::byte byte : bytes) {
    crc = (crc >> 8U) ^ kTable[(crc ^ static_cast<std::uint32_t>(byte)) & 255U];
  }
  return ~crc;
}

}  // namespace troupe::actors

#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::actors {

/// CRC-32 of PNG and zip; `before` is that of the bytes ahead of these.
[[nodiscard]] inline std::uint32_t crc32(std::span<const std::byte> bytes,
                                         std::uint32_t before = 0) {
  if (bytes.empty()) {
    return before;  // where they begin at null, zlib would start anew
  }
  return static_cast<std::uint32_t>(::crc32_z(
      before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace troupe::actors

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::actors {

/// CRC-32 of PNG and zip (polynomial 0xEDB88320, reflected); `before` is that
/// of the bytes ahead of these.
[[nodiscard]] std::uint32_t crc32(std::span<const std::byte> bytes,
                                  std::uint32_t before = 0);

}  // namespace troupe::actors

#pragma once

#include <cstdint>
#include <string>

namespace troupe {

enum class DeviceKind : std::uint8_t { cpu, cuda };

/// Where a tensor lives or an operation runs; `index` counts GPUs from 0.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu" or "cuda:0".
[[nodiscard]] inline std::string to_string(const Device& device) {
  return device.kind == DeviceKind::cpu
             ? "cpu"
             : "cuda:" + std::to_string(device.index);
}

}  // namespace troupe

#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// `meter`: a device that computes nothing (meter.h).
enum class DeviceKind : std::uint8_t { cpu, cuda, meter };

/// Where a tensor lives or an operation runs; `index` counts GPUs from 0.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu", "cuda:0" or "meter".
[[nodiscard]] inline std::string to_string(const Device& device) {
  switch (device.kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return "cuda:" + std::to_string(device.index);
    case DeviceKind::meter:
      return "meter";
  }
  return "";
}

}  // namespace troupe

#include "config/device_choice.h"

#include <algorithm>

#include "config/parse_value.h"
#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::config {
namespace {

/// More GPUs than this are not in one machine.
constexpr int kMostGpus = 1024;

/// "cuda:7", the number within what can be.
std::optional<int> gpu_index(std::string_view text) {
  int index = -1;
  const bool is_one =
      read_number(text, index) && index >= 0 && index < kMostGpus;
  return is_one ? std::optional(index) : std::nullopt;
}

DeviceChoice parse_device(std::string_view place, const std::string& item) {
  const std::string name = lowered(item);
  if (name == "cpu") {
    return {DeviceKind::cpu, std::nullopt};
  }
  for (const std::string_view gpu : {"cuda", "gpu"}) {
    if (name == gpu) {
      return {DeviceKind::cuda, std::nullopt};
    }
    const std::string prefix = std::string(gpu) + ":";
    if (name.starts_with(prefix)) {
      if (const auto index =
              gpu_index(std::string_view(name).substr(prefix.size()))) {
        return {DeviceKind::cuda, index};
      }
    }
  }
  throw Error(
      Errc::invalid_argument, place,
      "no such device: got " + in_quotes(item) +
          ", expected auto, cpu, cuda (all GPUs), cuda:N, or several with "
          "commas",
      suggestion(name,
                 std::vector<std::string>{"auto", "cpu", "cuda:0", "cuda"},
                 "troupe doctor lists the GPUs"));
}

}  // namespace

std::vector<DeviceChoice> parse_devices(std::string_view place,
                                        std::string_view text) {
  const std::vector<std::string> items = parse_list(place, text);
  require(!items.empty(), Errc::invalid_argument, place, "the value is empty",
          "was a shell variable meant that is not set?");
  if (items.size() == 1 && lowered(items[0]) == "auto") {
    return {};
  }
  std::vector<DeviceChoice> devices;
  for (const std::string& item : items) {
    require(lowered(item) != "auto", Errc::invalid_argument, place,
            "auto stands alone: got " + in_quotes(text),
            "name the devices, or leave the choice to auto");
    const DeviceChoice device = parse_device(place, item);
    const bool is_double =
        std::ranges::any_of(devices, [&device](const DeviceChoice& other) {
          // "cuda" has every GPU in it.
          return other.kind == device.kind &&
                 (other.index == device.index || !other.index || !device.index);
        });
    require(!is_double, Errc::invalid_argument, place,
            "a device is named twice: got " + in_quotes(text),
            "several workers on one device: --workers");
    devices.push_back(device);
  }
  return devices;
}

std::string to_string(const std::vector<DeviceChoice>& devices) {
  std::string text;
  for (const DeviceChoice& device : devices) {
    text += text.empty() ? "" : ",";
    text += device.kind == DeviceKind::cpu ? "cpu" : "cuda";
    text += device.index ? ":" + std::to_string(*device.index) : "";
  }
  return text.empty() ? "auto" : text;
}

}  // namespace troupe::config

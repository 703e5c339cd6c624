#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace troupe::config {

/// "auto" (nothing chosen: empty), "cpu", "cuda" (all GPUs), "cuda:0", or
/// several of these with commas; "gpu" is read as "cuda".
/// Errors: Errc::invalid_argument for a word that is none of these, with the
/// nearest one; for "auto" among others; for a device named twice.
[[nodiscard]] std::vector<DeviceChoice> parse_devices(std::string_view place,
                                                      std::string_view text);

/// The text that parse_devices reads back.
[[nodiscard]] std::string to_string(const std::vector<DeviceChoice>& devices);

}  // namespace troupe::config

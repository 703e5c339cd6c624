#pragma once

#include <string>

namespace troupe::models {

/// Keys in the config.json of DiT and PixArt, separated by spaces. Both were
/// one class before diffusers 0.29, and each still takes the other's.
[[nodiscard]] std::string transformer_keys();

}  // namespace troupe::models

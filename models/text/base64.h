#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace troupe::models {

/// The bytes that a text in base64 stands for, padded or not; nothing where it
/// is not base64. Source: RFC 4648, section 4.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

}  // namespace troupe::models

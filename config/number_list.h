#pragma once

#include <string_view>
#include <vector>

namespace troupe::config {

/// Numbers as people write lists of them: separated by commas, spaces or line
/// breaks, in brackets or not ("14.6, 3.2 1.0", "[14.6 3.2 1.0]"). "@FILE"
/// takes the same from a text file of at most 1 MiB. No text is no number.
/// Errors: Errc::invalid_argument for anything else; those of read_file.
[[nodiscard]] std::vector<double> parse_numbers(std::string_view place,
                                                std::string_view text);

}  // namespace troupe::config

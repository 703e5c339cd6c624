#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/option_table.h"
#include "samplers/options.h"

namespace troupe::config {

/// The table's names, in its order.
[[nodiscard]] std::vector<std::string> method_names(
    samplers::MethodTable table = samplers::method_table());

/// Unset: auto. Errors: Errc::invalid_argument with the nearest name.
[[nodiscard]] std::optional<samplers::MethodKind> parse_method(
    std::string_view place, std::string_view text,
    samplers::MethodTable table = samplers::method_table());

/// The rows of the options that this method takes.
[[nodiscard]] std::vector<const Option*> options_of(samplers::MethodKind kind);

/// The method and its options as the command line would say them: pairs of key
/// and value.
[[nodiscard]] std::vector<std::pair<std::string_view, std::string>>
method_settings(const samplers::MethodOptions& options);

/// Refuses what the user said about other methods than this one.
/// Errors: Errc::invalid_argument that names the methods which take it.
void check_method_options(const Config& config, samplers::MethodKind kind);

}  // namespace troupe::config

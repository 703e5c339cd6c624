#pragma once

#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/toml_file.h"

/// What does not go together, of one source or of all. For load_config.cpp.
namespace troupe::config {

/// Whether one of the settings sets `key`. A switch that is turned off is not
/// said.
[[nodiscard]] bool says(const std::vector<Setting>& settings,
                        std::string_view key);

// Errors (all): Errc::invalid_argument with the place of one of the options.

/// Refuses one option under two names in one source, because neither has
/// precedence.
void check_repeated(const std::vector<Setting>& settings);
/// Refuses contradictory options of one source.
void check_exclusive(const std::vector<Setting>& settings);
/// Refuses what an emulated machine does not have: it is whole, and computes on
/// the CPU.
void check_emulation(const Config& config);
/// Refuses several methods where one is run.
void check_one_method(const Config& config);
/// Refuses two things to print at once.
void check_printing(const Config& config);

}  // namespace troupe::config

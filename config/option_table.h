#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace troupe::config {

enum class Verb : std::uint8_t {
  sample = 1,
  schedule = 2,
  inspect = 4,
  verify = 8,
  bench = 16,
  doctor = 32
};

/// One option: the same row serves the flag, the environment variable, the
/// key of a TOML file and the line of --print-config.
struct Option {
  std::string_view key;      ///< "steps": --steps, TROUPE_STEPS, steps = 50
  std::string_view aliases;  ///< field spellings, comma-separated
  char letter;               ///< 0: none
  std::string_view value;    ///< placeholder in help; empty: a switch
  std::string_view help;
  std::string_view group;
  std::uint8_t verbs;  ///< bits of Verb
  /// Parses `text` into the config. Errors: Errc::invalid_argument.
  void (*set)(Config&, std::string_view place, std::string_view text);
  /// The value as text that `set` reads back; empty: not set.
  std::string (*get)(const Config&);

  [[nodiscard]] bool is_switch() const noexcept { return value.empty(); }
  [[nodiscard]] bool serves(Verb verb) const noexcept {
    return (verbs & static_cast<std::uint8_t>(verb)) != 0;
  }
};

/// All options, in the order of the help text.
[[nodiscard]] std::span<const Option> option_table();

/// The row of a key or alias ('_' counts as '-'), or null.
[[nodiscard]] const Option* find_option(std::string_view key);

/// Keys and aliases of a verb: candidates for suggestions.
[[nodiscard]] std::vector<std::string> option_names(Verb verb);
/// The same over all verbs.
[[nodiscard]] std::vector<std::string> option_names();

}  // namespace troupe::config

#pragma once

#include <string>
#include <vector>

namespace troupe::config {

/// An option in the words of its source.
struct Setting {
  std::string place;  ///< opens an error message: "--steps", "run.toml:3 steps"
  std::string key;
  std::string text;
};

/// The keys of a flat TOML file; arrays become comma-separated text, or a
/// setting of each item where the option takes several texts.
/// Errors: Errc::not_found, Errc::corrupt_file with line and column (syntax,
/// tables, values that are no option's), Errc::invalid_argument with the line
/// for a key with many dots, Errc::io for a file over 1 MiB.
[[nodiscard]] std::vector<Setting> read_toml(const std::string& path);

}  // namespace troupe::config

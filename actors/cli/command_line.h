#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/load_config.h"

namespace troupe::actors {

/// A verb and what it is about, for the overview and the dispatch.
struct VerbInfo {
  config::Verb verb;
  const char* name;
  const char* summary;
  const char* usage;     ///< after "troupe <name> "
  const char* examples;  ///< whole lines
};

[[nodiscard]] std::span<const VerbInfo> verb_table();

/// What stood on the command line, options not yet parsed to values.
struct CommandLine {
  std::optional<config::Verb> verb;  ///< none: --help or --version alone
  std::vector<config::Setting> flags;
  std::string config_file;
  std::vector<std::string> files;  ///< arguments that are no options
  bool help = false;
  std::string topic;  ///< of `troupe help TOPIC`; empty: none
  bool version = false;
};

/// Errors: Errc::invalid_argument for an unknown verb, flag or topic (with the
/// nearest one), a flag without its value or with an empty one, arguments that
/// a verb does not take; Errc::unsupported for what people know from elsewhere.
[[nodiscard]] CommandLine parse_command_line(
    const std::vector<std::string>& arguments);

/// The overview of verbs and topics, or a verb's options with examples.
[[nodiscard]] std::string help_text(std::optional<config::Verb> verb);

/// Whether the run was asked to end with JSON, by flag, environment or file;
/// found before parsing so that parse errors are reported as asked.
[[nodiscard]] bool wants_json(const std::vector<std::string>& arguments);

}  // namespace troupe::actors

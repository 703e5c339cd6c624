#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/cli/help_topics.h"
#include "actors/cli/verbs.h"
#include "config/load_config.h"

namespace troupe::actors {

/// A verb and what it is about, for the overview and the dispatch.
struct VerbInfo {
  config::Verb verb;
  int (*run)(Invocation&);
  const char* summary;
  const char* usage;             ///< after "troupe <verb> "
  const char* examples;          ///< whole lines
  bool takes_arguments = false;  ///< that are no options
};

[[nodiscard]] std::span<const VerbInfo> verb_table();
/// The row of a verb as it is typed, or null.
[[nodiscard]] const VerbInfo* find_verb(std::string_view word);

/// What stood on the command line, options not yet parsed to values.
struct CommandLine {
  const VerbInfo* verb = nullptr;  ///< null: --help or --version alone
  std::vector<config::Setting> flags;
  std::string config_file;
  std::vector<std::string> files;  ///< arguments that are no options
  bool help = false;
  bool help_all = false;             ///< with every option
  const HelpTopic* topic = nullptr;  ///< of `troupe help TOPIC`
  bool version = false;
};

/// Errors: Errc::invalid_argument for an unknown verb, flag or topic (with the
/// nearest one), a flag without its value or with an empty one, arguments that
/// a verb does not take; Errc::unsupported for what people know from elsewhere.
[[nodiscard]] CommandLine parse_command_line(
    const std::vector<std::string>& arguments);

/// Whether the run was asked to end with JSON, by flag, environment or file;
/// found before parsing so that parse errors are reported as asked.
[[nodiscard]] bool wants_json(const std::vector<std::string>& arguments);

}  // namespace troupe::actors

#include "actors/cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "config/enum_names.h"
#include "config/not_yet.h"
#include "config/parse_value.h"
#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

using config::Option;
using config::Verb;

/// "--num_steps=3" to "--num-steps=3": both spellings are in use.
std::string with_hyphens(const std::string& argument) {
  if (!argument.starts_with("--")) {
    return argument;
  }
  std::string out = argument;
  const auto end = out.begin() + static_cast<std::ptrdiff_t>(
                                     std::min(out.find('='), out.size()));
  std::replace(out.begin(), end, '_', '-');
  return out;
}

/// "-o,--out,--output".
std::string spellings(const Option& option) {
  std::string names = "--" + std::string(option.key);
  if (option.letter != 0) {
    names = std::string("-") + option.letter + "," + names;
  }
  for (const std::string& alias :
       config::parse_list("aliases", option.aliases)) {
    names += ",--" + alias;
  }
  return names;
}

/// For a word that is none of `names`.
[[noreturn]] void fail_unknown(const std::string& what, const std::string& word,
                               std::span<const std::string> names,
                               std::string_view otherwise) {
  config::check_missing_verb(word);
  throw Error(
      Errc::invalid_argument, word,
      "unknown " + what + ", expected one of " + config::join_names(names),
      config::suggestion(word, names, otherwise));
}

/// What `troupe help WORD` is about.
CommandLine parse_help(const std::vector<std::string>& arguments) {
  CommandLine line;
  line.help = true;
  if (arguments.size() < 2) {
    return line;
  }
  const std::string& word = arguments[1];
  const auto topics = help_topics();
  const auto topic = std::ranges::find(topics, word, &HelpTopic::name);
  line.topic = topic == topics.end() ? nullptr : &*topic;
  line.verb = find_verb(word);
  if (line.verb == nullptr && line.topic == nullptr) {
    std::vector<std::string> names = config::names_of<Verb>();
    for (const HelpTopic& known : topics) {
      names.emplace_back(known.name);
    }
    fail_unknown("topic", word, names, "see troupe help");
  }
  return line;
}

/// The option that an argument names ("--num-steps=3", "-o"), if it does.
const Option* option_of(const std::string& argument, Verb verb) {
  if (argument.starts_with("--")) {
    const Option* option =
        config::find_option(argument.substr(2, argument.find('=') - 2));
    return option != nullptr && option->serves(verb) ? option : nullptr;
  }
  for (const Option& option : config::option_table()) {
    if (option.letter != 0 && option.serves(verb) && argument.size() > 1 &&
        argument[0] == '-' && argument[1] == option.letter) {
      return &option;
    }
  }
  return nullptr;
}

/// Whether the empty text is a value of the option, and not a shell variable
/// that is not set: its own parser says so.
bool may_be_empty(const Option* option) {
  if (option == nullptr || (option->kind() != config::ValueKind::text &&
                            option->kind() != config::ValueKind::texts)) {
    return false;
  }
  try {
    config::Config config;
    option->set(config, option->key, "");
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Values that CLI11 would take from the next argument, though they are empty
/// (--out= --json) or missing (--out --json). Rewrites -o=FILE to --out=FILE,
/// and an empty value that is allowed to an argument of its own.
void check_values(Verb verb, std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string& argument = arguments[i];
    const Option* option = option_of(argument, verb);
    const bool is_letter = option != nullptr && !argument.starts_with("--");
    if (is_letter && !option->is_switch() && argument.size() > 2) {
      if (argument[2] != '=') {
        continue;  // -oFILE
      }
      argument = "--" + std::string(option->key) + argument.substr(2);
    }
    const std::size_t equals =
        argument.starts_with("--") ? argument.find('=') : std::string::npos;
    if (equals != std::string::npos) {
      if (equals + 1 < argument.size()) {
        continue;
      }
      if (!may_be_empty(option)) {
        config::fail_empty(argument.substr(0, equals));
      }
      // As two arguments, which CLI11 does not confuse with what follows.
      argument.resize(equals);
      arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(++i),
                       std::string());
      continue;
    }
    const bool takes_next =
        option != nullptr ? !option->is_switch() : argument == "--config";
    if (!takes_next || i + 1 == arguments.size()) {
      continue;
    }
    const std::string& value = arguments[++i];
    if (value.empty() && !may_be_empty(option)) {
      config::fail_empty(argument);
    }
    if (value.starts_with("--") ||
        (value.size() == 2 && option_of(value, verb) != nullptr)) {
      throw Error(
          Errc::invalid_argument, argument,
          "its value is missing: got the option " + value,
          "if that is the value, write " +
              (option != nullptr ? "--" + std::string(option->key) : argument) +
              "=" + value);
    }
  }
}

/// The value of an option that has one, however often it is given.
/// Errors: Errc::invalid_argument for two.
const std::string& only_value(const std::string& name,
                              const std::vector<std::string>& given) {
  for (const std::string& other : given) {
    require(other == given.front(), Errc::invalid_argument, name,
            "given twice, with two values: " + in_quotes(given.front()) +
                " and " + in_quotes(other),
            "give one of them");
  }
  return given.front();
}

/// The verb's flags as CLI11 knows them; every value is kept as text.
class FlagParser {
 public:
  explicit FlagParser(Verb verb) : verb_(verb) {
    app_.set_help_flag();
    app_.allow_extras();
    app_.add_flag("--help-all", line_.help_all);
    app_.add_flag("-h,--help", line_.help);
    app_.add_flag("--version", line_.version);
    config_ = add_option("--config");
    for (const Option& option : config::option_table()) {
      if (option.serves(verb)) {
        given_[&option] = option.is_switch() ? app_.add_flag(spellings(option))
                                             : add_option(spellings(option));
      }
    }
  }

  CommandLine parse(std::vector<std::string> arguments) {
    check_values(verb_, arguments);
    // The place of the option keeps the spelling --batch-size for note_batch.
    const auto is_batch_size = [](const std::string& argument) {
      return argument.substr(0, argument.find('=')) == kBatchSize;
    };
    batch_name_ = std::ranges::any_of(arguments, is_batch_size)
                      ? std::string(kBatchSize)
                      : "--batch";
    std::ranges::reverse(arguments);  // CLI11 takes them from the back
    try {
      app_.parse(std::move(arguments));
      collect();
    } catch (const CLI::ParseError& problem) {
      throw Error(Errc::invalid_argument, config::name_of(verb_),
                  problem.what(),
                  "see troupe " + config::name_of(verb_) + " --help");
    }
    for (const std::string& extra : app_.remaining()) {
      if (extra.size() > 1 && extra.front() == '-') {
        config::fail_unknown_option(verb_, extra);
      }
      line_.files.push_back(extra);
    }
    if (config_->count() > 0) {
      line_.config_file = only_value("--config", config_->results());
    }
    return line_;
  }

 private:
  /// One that may be given several times; a value of each.
  CLI::Option* add_option(const std::string& names) {
    return app_.add_option(names)
        ->type_name("TEXT")  // in messages
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
  }

  void collect() {
    for (const Option& option : config::option_table()) {
      const auto given = given_.find(&option);
      if (given == given_.end() || given->second->count() == 0) {
        continue;
      }
      const std::string key(option.key);
      const std::string place = key == "batch" ? batch_name_ : "--" + key;
      for (std::string& text :
           texts_of(option, place, given->second->results())) {
        line_.flags.push_back({place, key, std::move(text)});
      }
    }
  }

  /// What an option is set to, in turn.
  std::vector<std::string> texts_of(const Option& option,
                                    const std::string& name,
                                    std::vector<std::string> given) const {
    if (option.kind() == config::ValueKind::texts) {
      return given;
    }
    // A list given in pieces is one list. Schedules of several samplers are
    // compared.
    if (option.kind() == config::ValueKind::list ||
        (verb_ == Verb::schedule && option.key == "sampler")) {
      return {fmt::format("{}", fmt::join(given, ","))};
    }
    if (option.is_switch()) {
      // --json=false is said too: it takes back what the environment says.
      for (std::string& text : given) {
        text = config::parse_bool(name, text) ? "true" : "false";
      }
    }
    return {only_value(name, given)};
  }

  static constexpr std::string_view kBatchSize = "--batch-size";
  Verb verb_;
  CLI::App app_;
  CommandLine line_;
  std::string batch_name_;  ///< as typed
  std::map<const Option*, CLI::Option*> given_;
  CLI::Option* config_ = nullptr;
};

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" ||
      arguments[0] == "help") {
    return parse_help(arguments);
  }
  CommandLine line;
  if (arguments[0] == "--version") {
    line.version = true;
    return line;
  }
  if (arguments[0].starts_with("-")) {
    throw Error(Errc::invalid_argument, arguments[0],
                "the verb comes first: troupe <verb> [options]",
                "for example troupe sample " + arguments[0] + " …");
  }
  const VerbInfo* info = find_verb(arguments[0]);
  if (info == nullptr) {
    fail_unknown("verb", arguments[0], config::names_of<Verb>(),
                 "see troupe --help");
  }
  // What follows "--" is no option, however it is spelled.
  const auto end = std::find(arguments.begin() + 1, arguments.end(), "--");
  std::vector<std::string> rest;
  std::transform(arguments.begin() + 1, end, std::back_inserter(rest),
                 with_hyphens);
  line = FlagParser(info->verb).parse(std::move(rest));
  line.verb = info;
  if (end != arguments.end()) {
    line.files.insert(line.files.end(), end + 1, arguments.end());
  }
  if (!info->takes_arguments && !line.files.empty()) {
    throw Error(Errc::invalid_argument, line.files.front(),
                "an argument that no option takes",
                "see troupe " + arguments[0] + " --help");
  }
  return line;
}

bool wants_json(const std::vector<std::string>& arguments) {
  constexpr std::string_view kJson = "--json=";
  constexpr std::string_view kConfig = "--config=";
  config::Sources sources = config::read_environment();
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--json") {
      sources.flags.push_back({argument, "json", "true"});
    } else if (argument.starts_with(kJson)) {
      sources.flags.push_back(
          {argument, "json", argument.substr(kJson.size())});
    } else if (argument == "--config" && i + 1 < arguments.size() &&
               !arguments[i + 1].starts_with("--")) {
      sources.file = arguments[++i];
    } else if (argument.starts_with(kConfig)) {
      sources.file = argument.substr(kConfig.size());
    }
  }
  return config::asks_for_json(sources);
}

}  // namespace troupe::actors

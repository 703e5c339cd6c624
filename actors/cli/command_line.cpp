#include "actors/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>

#include "config/suggest.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

using config::Option;
using config::Verb;

constexpr std::array kVerbs = {
    VerbInfo{
        Verb::sample, "sample", "make images with a company of workers",
        "(--model DIR | --random-weights NAME) [options]",
        "  troupe sample -m DIR --class 207 -o dog.png\n"
        "  troupe sample -m DIR -c 207,360 -n 16 -o out --grid grid.png\n"
        "  troupe sample -m DIR -n 64:128 --exists skip -o "
        "'out-{index:05}.png'\n"
        "  troupe sample -m DIR --method picard --tolerance 0.01 -o fast.png\n"
        "  troupe sample --random-weights dit-xl-2-256 --dry-run\n"
        "  troupe sample -m DIR --from dog.png -o again.png\n"},
    VerbInfo{
        Verb::schedule, "schedule",
        "print or draw the timesteps and noise levels of a sampler",
        "[options]",
        "  troupe schedule --sampler dpm++2m --karras --steps 20\n"
        "  troupe schedule --model DIR --steps 50 --plot schedule.svg\n"
        "  troupe schedule --sampler ddim --sampler dpm++2m --plot both.svg"
        "\n"},
    VerbInfo{Verb::inspect, "inspect",
             "say what a checkpoint folder, tensor file or image holds",
             "PATH… [options]",
             "  troupe inspect DIR\n"
             "  troupe inspect model.safetensors\n"
             "  troupe inspect dog.png --json\n"},
    VerbInfo{Verb::verify, "verify",
             "run an image's recipe again, or compare two files, byte for byte",
             "FILE… [--model DIR] [--against FILE]",
             "  troupe verify dog.png --model DIR\n"
             "  troupe verify a.safetensors --against b.safetensors\n"},
    VerbInfo{Verb::bench, "bench",
             "measure a parallel method against one worker",
             "(--model DIR | --random-weights NAME) [options]",
             "  troupe bench -m DIR --method batch -n 4 --workers 2\n"
             "  troupe bench -m DIR --method stale --segments 2 --steps 50\n"},
    VerbInfo{Verb::doctor, "doctor",
             "say what this machine and build have, and what is missing", "",
             "  troupe doctor\n"},
};

const VerbInfo& info_of(Verb verb) {
  return *std::ranges::find(kVerbs, verb, &VerbInfo::verb);
}

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

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) {
    text.append(text.empty() ? "" : ",").append(item);
  }
  return text;
}

Verb parse_verb(const std::string& word) {
  std::vector<std::string> names;
  for (const VerbInfo& verb : kVerbs) {
    if (word == verb.name) {
      return verb.verb;
    }
    names.emplace_back(verb.name);
  }
  throw Error(Errc::invalid_argument, word,
              "unknown verb, expected one of " + config::join_names(names),
              config::suggestion(word, names, "see troupe --help"));
}

/// The verb's flags as CLI11 knows them; every value is kept as text.
class FlagParser {
 public:
  explicit FlagParser(Verb verb) : verb_(verb) {
    app_.set_help_flag();
    app_.allow_extras();
    app_.add_flag("-h,--help", line_.help);
    app_.add_flag("--version", line_.version);
    config_ = app_.add_option("--config", line_.config_file);
    for (const Option& option : config::option_table()) {
      if (!option.serves(verb)) {
        continue;
      }
      if (option.is_switch()) {
        Switch& given = switches_[&option];
        given.flag = app_.add_flag(spellings(option), given.is_on);
      } else {
        app_.add_option(spellings(option), values_[&option])
            ->expected(1)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
            ->allow_extra_args(false);
      }
    }
  }

  CommandLine parse(std::vector<std::string> arguments) {
    line_.verb = verb_;
    std::ranges::reverse(arguments);  // CLI11 takes them from the back
    try {
      app_.parse(std::move(arguments));
    } catch (const CLI::ParseError& problem) {
      throw Error(Errc::invalid_argument, info_of(verb_).name, problem.what(),
                  std::string("see troupe ") + info_of(verb_).name + " --help");
    }
    for (const std::string& extra : app_.remaining()) {
      if (extra.size() > 1 && extra.front() == '-') {
        config::fail_unknown_option(verb_, extra);
      }
      line_.files.push_back(extra);
    }
    collect();
    return line_;
  }

 private:
  struct Switch {
    bool is_on = false;
    CLI::Option* flag = nullptr;  ///< the app's
  };

  void collect() {
    for (const Option& option : config::option_table()) {
      const std::string key(option.key);
      const auto found = values_.find(&option);
      if (found != values_.end() && !found->second.empty()) {
        // A list given in pieces is one list; of anything else the last counts.
        // Schedules of several samplers are compared.
        const bool is_list =
            option.value == "LIST" || option.value == "KIND=FILE" ||
            (verb_ == Verb::schedule && option.key == "sampler");
        line_.flags.push_back(
            {"--" + key, key,
             is_list ? joined(found->second) : found->second.back()});
      }
      // --json=false is said too: it takes back what the environment says.
      const auto given = switches_.find(&option);
      if (given != switches_.end() && given->second.flag->count() > 0) {
        line_.flags.push_back(
            {"--" + key, key, given->second.is_on ? "true" : "false"});
      }
    }
    require(config_->count() == 0 || !line_.config_file.empty(),
            Errc::invalid_argument, "--config", "the value is empty",
            "was a shell variable meant that is not set?");
  }

  Verb verb_;
  CLI::App app_;
  CommandLine line_;
  std::map<const Option*, std::vector<std::string>> values_;
  std::map<const Option*, Switch> switches_;
  CLI::Option* config_ = nullptr;
};

}  // namespace

std::span<const VerbInfo> verb_table() { return kVerbs; }

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  CommandLine line;
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" ||
      arguments[0] == "help") {
    line.help = true;
    if (arguments.size() > 1) {
      line.verb = parse_verb(arguments[1]);
    }
    return line;
  }
  if (arguments[0] == "--version") {
    line.version = true;
    return line;
  }
  if (arguments[0].starts_with("-")) {
    throw Error(Errc::invalid_argument, arguments[0],
                "the verb comes first: troupe <verb> [options]",
                "for example troupe sample " + arguments[0] + " …");
  }
  const Verb verb = parse_verb(arguments[0]);
  // What follows "--" is no option, however it is spelled.
  const auto end = std::find(arguments.begin() + 1, arguments.end(), "--");
  std::vector<std::string> rest;
  std::transform(arguments.begin() + 1, end, std::back_inserter(rest),
                 with_hyphens);
  line = FlagParser(verb).parse(std::move(rest));
  if (end != arguments.end()) {
    line.files.insert(line.files.end(), end + 1, arguments.end());
  }
  const bool takes_files = verb == Verb::inspect || verb == Verb::verify;
  if (!takes_files && !line.files.empty()) {
    throw Error(Errc::invalid_argument, line.files.front(),
                "an argument that no option takes",
                std::string("see troupe ") + info_of(verb).name + " --help");
  }
  return line;
}

std::string help_text(std::optional<Verb> verb) {
  if (!verb) {
    std::string text =
        "troupe samples diffusion models with a company of actors.\n\n"
        "usage: troupe <verb> [options]\n\n";
    for (const VerbInfo& info : kVerbs) {
      text += fmt::format("  {:<10} {}\n", info.name, info.summary);
    }
    return text +
           "\ntroupe <verb> --help says more. Every option can also be set as "
           "TROUPE_OPTION\nin the environment or as a line of a TOML file "
           "given "
           "with --config FILE.\n";
  }
  const VerbInfo& info = info_of(*verb);
  std::string text =
      fmt::format("troupe {}: {}\n\nusage: troupe {} {}\n", info.name,
                  info.summary, info.name, info.usage);
  std::string_view group;
  for (const Option& option : config::option_table()) {
    if (!option.serves(*verb)) {
      continue;
    }
    if (option.group != group) {
      group = option.group;
      text += fmt::format("\n{}\n", group);
    }
    const std::string name = fmt::format(
        "{}--{}{}{}",
        option.letter != 0 ? fmt::format("-{}, ", option.letter) : "    ",
        option.key, option.is_switch() ? "" : " ", option.value);
    text += fmt::format("  {:<30} {} [{}]\n", name, option.help,
                        config::default_of(option));
  }
  text +=
      "      --config FILE              options from a TOML file "
      "[TROUPE_CONFIG, else none]\n"
      "\nIn brackets: the default. --print-config says what holds for a job, "
      "and why.\n"
      "\nExamples\n";
  return text + info.examples;
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
    } else if (argument == "--config" && i + 1 < arguments.size()) {
      sources.file = arguments[++i];
    } else if (argument.starts_with(kConfig)) {
      sources.file = argument.substr(kConfig.size());
    }
  }
  return config::asks_for_json(sources);
}

}  // namespace troupe::actors

#include "actors/cli/help_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "actors/cli/help_topics.h"
#include "config/enum_names.h"
#include "config/option_table.h"

namespace troupe::actors {
namespace {

using config::Option;
using config::Verb;

/// Where the text of an option begins.
constexpr std::size_t kOptionText = 30;

/// Of UTF-8: every byte but those that continue a character.
std::size_t num_characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) >> 6U) != 2; }));
}

std::string option_line(const Option& option, Verb verb) {
  const std::string letter =
      option.letter == 0 ? "    " : fmt::format("-{}, ", option.letter);
  return wrapped(
      fmt::format("  {}--{}{}{}", letter, option.key,
                  option.is_switch() ? "" : " ", option.value),
      fmt::format("{} [{}]", option.help.of(verb), default_of(option, verb)),
      kOptionText);
}

}  // namespace

std::string wrapped(std::string_view head, std::string_view text,
                    std::size_t indent) {
  std::string out(head);
  std::size_t column = num_characters(head);
  bool is_first = true;  // of its line
  const auto begin_line = [&] {
    out += '\n';
    column = 0;
    is_first = true;
  };
  if (column > 0 && column >= indent) {
    begin_line();
  }
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const std::size_t size = num_characters(word);
    if (!is_first && column + 1 + size > kHelpWidth) {
      begin_line();
    }
    const std::size_t gap = !is_first         ? 1
                            : column < indent ? indent - column
                                              : 0;
    out.append(gap, ' ').append(word);
    column += gap + size;
    is_first = false;
  }
  return out + '\n';
}

std::string help_overview() {
  std::string text =
      "troupe samples diffusion models with a company of actors.\n\n"
      "usage: troupe VERB [options]\n\n";
  for (const VerbInfo& info : verb_table()) {
    text += wrapped("  " + config::name_of(info.verb), info.summary, 13);
  }
  text += "\nThe manual: troupe help TOPIC\n\n";
  for (const HelpTopic& topic : help_topics()) {
    text += wrapped("  " + topic.name, topic.summary, 13);
  }
  return text + '\n' +
         wrapped(
             "",
             "troupe VERB --help says more of a verb. Every option can also "
             "be set as TROUPE_OPTION in the environment or as a line of a "
             "TOML file given with --config FILE.",
             0);
}

std::string help_text(const VerbInfo& verb, bool all) {
  std::vector<const Option*> options;
  for (const Option& option : config::option_table()) {
    if (option.serves(verb.verb)) {
      options.push_back(&option);
    }
  }
  const std::size_t count = options.size();
  const auto is_rare = [&](const Option* option) {
    return !option->is_often_used(verb.verb);
  };
  if (!all && !std::ranges::all_of(options, is_rare)) {
    std::erase_if(options, is_rare);
  }
  const std::string name = config::name_of(verb.verb);
  std::string text =
      wrapped("", fmt::format("troupe {}: {}", name, verb.summary), 0) + '\n' +
      wrapped("usage:", fmt::format("troupe {} {}", name, verb.usage), 7);
  std::string_view group;
  for (const Option* option : options) {
    if (option->group != group) {
      group = option->group;
      text += fmt::format("\n{}\n", group);
    }
    text += option_line(*option, verb.verb);
  }
  text += '\n';
  if (options.size() < count) {
    text += wrapped("",
                    fmt::format("These are the most used options. "
                                "troupe {} --help-all shows all {}.",
                                name, count),
                    0);
  } else {
    text += wrapped("      --config FILE",
                    "options from a TOML file [TROUPE_CONFIG, else none]",
                    kOptionText) +
            '\n';
  }
  const bool takes_prompts = config::find_option("prompt")->serves(verb.verb);
  return text +
         wrapped(
             "",
             fmt::format("In brackets: the default. --print-config says "
                         "what holds for a job, and why. A list may be "
                         "given in pieces{}. Any other option has one "
                         "value.",
                         takes_prompts ? ", and --prompt several times" : ""),
             0) +
         "\nExamples\n" + verb.examples;
}

}  // namespace troupe::actors

#include "actors/cli/help_topics.h"

#include <fmt/format.h>

#include <algorithm>

#include "actors/cli/help_text.h"
#include "kernels/core/error.h"
#include "kernels/core/system/exit_codes.h"

namespace troupe::actors {
namespace {

/// The first line of a page, and the line below it.
std::string heading(std::string_view line) {
  return fmt::format("{}\n{}\n\n", line, std::string(line.size(), '='));
}

std::string json_text() {
  std::string text =
      heading("json: the JSON that is printed, key by key") +
      "With --json a verb ends with one JSON object on the last line of "
      "stdout,\n"
      "on success as on failure; notes and errors go to stderr as always.\n"
      "A path joins keys with dots; [] is each item of an array, * any key.\n"
      "Readers should pass over keys they do not know: some may be added.\n";
  for (const JsonSection& section : json_sections()) {
    text += fmt::format("\n{}\n", section.of) + wrapped(" ", section.about, 2);
    for (const JsonField& field : section.fields) {
      const std::string path = fmt::format("    {:<36}", field.path);
      text += wrapped(path, field.type, path.size() + 1) +
              wrapped(" ", field.meaning, 6);
    }
  }
  return text;
}

std::string exit_code_text() {
  std::string text =
      heading("exit-codes: exit codes and kinds of errors") +
      "Below each code stand the values of error.code (--json) that end with "
      "it.\n'retryable': the same command may succeed later without a "
      "change.\n";
  for (const ExitCode& row : exit_codes()) {
    text += '\n' + wrapped(fmt::format("{:>5}", row.number), row.meaning, 7) +
            wrapped(" ", row.advice, 7);
    for (const Errc code : all_error_codes()) {
      if (exit_code(code) == row.number) {
        text += wrapped(fmt::format("         {}", to_string(code)),
                        fmt::format("{}{}", describe(code),
                                    is_retryable(code) ? " (retryable)" : ""),
                        27);
      }
    }
  }
  return text +
         "\nA signal that comes before the program's first instruction, and "
         "SIGKILL,\nend it as the system does: 128 + the signal's number in a "
         "shell.\n";
}

HelpTopic topic_of(std::string text) {
  const std::string line = text.substr(0, text.find('\n'));
  const std::size_t colon = line.find(": ");
  require(colon != std::string::npos, Errc::internal, "manual",
          "the first line of a page is no 'NAME: SUMMARY'");
  return {line.substr(0, colon), line.substr(colon + 2), std::move(text)};
}

}  // namespace

std::span<const HelpTopic> help_topics() {
  static const std::vector<HelpTopic> kTopics = [] {
    std::vector<HelpTopic> topics;
    for (const std::string_view page : manual_pages()) {
      topics.push_back(topic_of(std::string(page)));
    }
    topics.push_back(topic_of(json_text()));
    topics.push_back(topic_of(exit_code_text()));
    std::ranges::sort(topics, {}, &HelpTopic::name);
    return topics;
  }();
  return kTopics;
}

}  // namespace troupe::actors

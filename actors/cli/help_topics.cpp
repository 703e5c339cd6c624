#include "actors/cli/help_topics.h"

#include <fmt/format.h>

#include <array>

#include "kernels/core/exit_codes.h"

namespace troupe::actors {
namespace {

std::string json_text() {
  std::string text =
      "The JSON that Troupe prints\n\n"
      "With --json a verb ends with one JSON object on the last line of "
      "stdout,\n"
      "on success as on failure; notes and errors go to stderr as always.\n"
      "A path joins keys with dots; [] is each item of an array, * any key.\n"
      "Readers should pass over keys they do not know: some may be added.\n";
  for (const JsonSection& section : json_sections()) {
    text += fmt::format("\n{}\n  {}\n", section.of, section.about);
    for (const JsonField& field : section.fields) {
      text += fmt::format("    {:<36} {}\n      {}\n", field.path, field.type,
                          field.meaning);
    }
  }
  return text;
}

std::string exit_code_text() {
  std::string text =
      "Exit codes of troupe\n\n"
      "Below each code stand the values of error.code (--json) that end with "
      "it.\n'retryable': the same command may succeed later without a "
      "change.\n";
  for (const ExitCode& row : exit_codes()) {
    text += fmt::format("\n{:>5}  {}\n       {}\n", row.number, row.meaning,
                        row.advice);
    for (const Errc code : all_error_codes()) {
      if (exit_code(code) == row.number) {
        text += fmt::format("         {:<17} {}{}\n", to_string(code),
                            describe(code),
                            is_retryable(code) ? " (retryable)" : "");
      }
    }
  }
  return text +
         "\nA signal that comes before the program's first instruction, and "
         "SIGKILL,\nend it as the system does: 128 + the signal's number in a "
         "shell.\n";
}

constexpr std::array kTopics = {
    HelpTopic{"json", "the JSON that is printed, key by key", json_text},
    HelpTopic{"exit-codes", "exit codes and kinds of errors", exit_code_text},
};

}  // namespace

std::span<const HelpTopic> help_topics() { return kTopics; }

}  // namespace troupe::actors

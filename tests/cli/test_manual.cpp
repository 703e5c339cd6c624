// Whether the commands exist that README.md and the manual name: the scripts,
// the programs, the options.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <utility>
#include <vector>

#include "actors/cli/command_line.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

using Words = std::vector<std::string>;

const std::filesystem::path kRoot = TROUPE_ROOT;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> matches(const std::string& text,
                                 const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end;
       at != end; ++at) {
    found.push_back((*at)[at->size() > 1 ? 1 : 0]);
  }
  return found;
}

/// As a shell splits a line, up to a comment or a pipe.
Words words_of(const std::string& command) {
  Words words;
  std::string word;
  bool has_word = false;
  char quote = 0;
  for (const char c : command + " ") {
    if (quote != 0) {
      quote == c ? quote = 0 : (word += c, 0);
    } else if (c == '"' || c == '\'') {
      quote = c;
      has_word = true;
    } else if (c == ' ' || c == '\n') {
      if (has_word && (word == "#" || word == "|")) {
        return words;
      }
      if (has_word) {
        words.push_back(word);
      }
      word.clear();
      has_word = false;
    } else {
      word += c;
      has_word = true;
    }
  }
  return words;
}

/// The commands of a page, as they stand there: in code of several lines and
/// between backticks. What is no command of ours is among them.
Words commands_in(const std::string& page) {
  Words commands;
  std::string prose;
  std::string open;  // a command whose line ends with a backslash
  bool is_fenced = false;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      is_fenced = !is_fenced;
    } else if (is_fenced || line.starts_with("    ")) {
      const bool goes_on = line.ends_with('\\');
      open += line.substr(0, line.size() - (goes_on ? 1 : 0)) + " ";
      if (!goes_on) {
        commands.push_back(std::exchange(open, {}));
      }
    } else {
      prose += line + "\n";
    }
  }
  static const std::regex kSpan("`([^`]+)`");
  const Words spans = matches(prose, kSpan);
  commands.insert(commands.end(), spans.begin(), spans.end());
  return commands;
}

/// What stands before the program: a prompt, "sudo", "NAME=value", …
void drop_prefix(Words& words) {
  static const std::regex kPrefix(
      R"(\$|sudo|python3|/usr/bin/time|-v|[A-Z_]+=\S*)");
  while (!words.empty() && std::regex_match(words[0], kPrefix)) {
    words.erase(words.begin());
  }
}

std::string fault_of_arguments(const Words& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "VERB" || argument == "TOPIC") {
      return "";
    }
  }
  try {
    (void)parse_command_line(arguments);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// A flag is one of a script if the script says it, or a script that it calls.
std::string fault_of_script(const Words& words) {
  if (!std::filesystem::exists(kRoot / words[0])) {
    return words[0] + " is not there";
  }
  static const std::regex kOther(R"((scripts/[a-z_/]+\.(?:sh|py)))");
  std::string text = text_of(kRoot / words[0]);
  for (const std::string& other : matches(text, kOther)) {
    if (std::filesystem::exists(kRoot / other)) {
      text += text_of(kRoot / other);
    }
  }
  for (const std::string& word : words) {
    const std::string flag = word.substr(0, word.find('='));
    if (flag.starts_with("--") && text.find(flag) == std::string::npos) {
      return words[0] + " does not know " + flag;
    }
  }
  return "";
}

std::string fault_of_program(const std::string& path) {
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(kRoot / "tests")) {
    if (entry.path().filename() == "CMakeLists.txt" &&
        text_of(entry.path()).find(std::filesystem::path(path).filename()) !=
            std::string::npos) {
      return "";
    }
  }
  return path + " is not built by tests/";
}

/// Says what of a command is not there; empty where all is, or it is not ours.
std::string fault_of(const std::string& command) {
  Words words = words_of(command);
  drop_prefix(words);
  if (words.empty()) {
    return "";
  }
  const Words arguments(words.begin() + 1, words.end());
  if (words[0] == "troupe") {
    return words.size() == 1 ? "" : fault_of_arguments(arguments);
  }
  if (words[0].starts_with("--")) {  // `--steps N`
    const std::string key = words[0].substr(2, words[0].find('=') - 2);
    return config::find_option(key) != nullptr || key == "help" ||
                   key == "help-all" || key == "config"
               ? ""
               : words[0] + " is no option";
  }
  if (words[0] == "sbatch") {
    const auto script = std::ranges::find(words, "scripts/slurm.sbatch");
    Words of_sample(script == words.end() ? script : script + 1, words.end());
    of_sample.insert(of_sample.begin(), "sample");
    return fault_of_arguments(of_sample);
  }
  if (words[0].starts_with("scripts/")) {
    return fault_of_script(words);
  }
  return words[0].starts_with("build/release/tests/")
             ? fault_of_program(words[0])
             : "";
}

void expect_commands(const std::string& name, const std::string& page) {
  for (const std::string& command : commands_in(page)) {
    EXPECT_EQ(fault_of(command), "") << name << ": " << command;
  }
}

TEST(Manual, NamesCommandsThatAreThere) {
  for (const HelpTopic& topic : help_topics()) {
    expect_commands(topic.name, topic.text);
  }
}

TEST(Manual, ReadmeNamesCommandsThatAreThere) {
  expect_commands("README.md", text_of(kRoot / "README.md"));
}

TEST(Manual, CommandsThatAreNotThereAreFound) {
  for (const char* command :
       {"troupe smaple", "$ troupe sample --modle DIR", "troupe help methds",
        "troupe bench --grid g.png", "scripts/no_such.sh",
        "sudo scripts/parity.sh --no-such-flag",
        "X=1 build/release/tests/actors/no_such_test", "--stpes N",
        "sbatch --nodes=2 scripts/slurm.sbatch --modle DIR"}) {
    EXPECT_NE(fault_of(command), "") << command;
  }
  for (const char* command :
       {"troupe sample --model DIR --steps 3 | display -", "troupe help json",
        "scripts/parity.sh --cases N", "--steps N", "hf download x",
        "sbatch --nodes=2 scripts/slurm.sbatch --model DIR",
        "build/release/tests/actors/disturb_runs 200"}) {
    EXPECT_EQ(fault_of(command), "") << command;
  }
  EXPECT_EQ(commands_in("Say `troupe\nls`.\n\n    troupe a \\\n      b\n"
                        "```sh\ntroupe c  # d\n```\n"),
            (Words{"    troupe a        b ", "troupe c  # d ", "troupe\nls"}));
}

TEST(Manual, EachFigureHasACommandAMachineAndADate) {
  const auto topics = help_topics();
  const auto page = std::ranges::find(topics, "figures", &HelpTopic::name);
  ASSERT_NE(page, topics.end());
  const std::size_t begin = page->text.find("\n- ", page->text.find("\n---"));
  ASSERT_NE(begin, std::string::npos);
  static const std::regex kOrigin(
      R"(\n  ([A-Z][A-Z0-9]*), 20\d\d-\d\d-\d\d:(?:\s+`[^`]+`,?)+\s*$)");
  static const std::regex kItem(R"(\n- (?:[^\n]+(?:\n  [^\n]+)*))");
  const Words items = matches(page->text.substr(begin), kItem);
  EXPECT_GT(items.size(), 50U);
  for (const std::string& item : items) {
    std::smatch origin;
    ASSERT_TRUE(std::regex_search(item, origin, kOrigin)) << item;
    EXPECT_NE(page->text.find("\n- " + origin.str(1) + ": "), std::string::npos)
        << "what machine is that? " << item;
  }
}

}  // namespace
}  // namespace troupe::actors

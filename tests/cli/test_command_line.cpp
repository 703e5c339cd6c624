#include <gtest/gtest.h>

#include "actors/cli/command_line.h"
#include "config/enum_names.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

std::string value_of(const CommandLine& line, const std::string& key) {
  for (const config::Setting& flag : line.flags) {
    if (flag.key == key) {
      return flag.text;
    }
  }
  return "not given";
}

std::string hint_of(const std::vector<std::string>& arguments) {
  try {
    (void)parse_command_line(arguments);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    return error.hint();
  }
  return "no error";
}

TEST(CommandLine, ReadsShortLongAndForeignSpellings) {
  const CommandLine line = parse_command_line(
      {"sample", "-m", "dir", "--num_inference_steps=7", "-n", "3",
       "--cfg-scale", "-1.5", "-c", "a b", "--class", "c", "--json"});
  EXPECT_EQ(value_of(line, "model"), "dir");
  EXPECT_EQ(value_of(line, "steps"), "7");
  EXPECT_EQ(value_of(line, "samples"), "3");
  EXPECT_EQ(value_of(line, "guidance"), "-1.5");
  EXPECT_EQ(value_of(line, "class"), "a b,c");
  EXPECT_EQ(value_of(line, "json"), "true");
  EXPECT_EQ(value_of(line, "seed"), "not given");
}

TEST(CommandLine, CollectsFilesOnlyForVerbsThatTakeThem) {
  EXPECT_EQ(parse_command_line({"inspect", "a", "b"}).files,
            (std::vector<std::string>{"a", "b"}));
  EXPECT_NE(hint_of({"sample", "stray"}), "no error");
}

TEST(CommandLine, KeepsASwitchThatIsTurnedOff) {
  const CommandLine line =
      parse_command_line({"sample", "--json=false", "--dry-run=true"});
  EXPECT_EQ(value_of(line, "json"), "false");
  EXPECT_EQ(value_of(line, "dry-run"), "true");
  EXPECT_EQ(value_of(line, "quiet"), "not given");
}

TEST(CommandLine, EndsItsOptionsAtTwoHyphens) {
  const CommandLine line =
      parse_command_line({"verify", "a", "-q", "--", "-b.png", "--json"});
  EXPECT_EQ(line.files, (std::vector<std::string>{"a", "-b.png", "--json"}));
  EXPECT_EQ(value_of(line, "quiet"), "true");
  EXPECT_EQ(value_of(line, "json"), "not given");
}

TEST(CommandLine, WantsANameAfterConfig) {
  EXPECT_NE(hint_of({"sample", "--config", ""}), "no error");
  EXPECT_NE(hint_of({"sample", "--config="}), "no error");
}

TEST(CommandLine, WantsAValueThatIsNotEmptyForEveryOption) {
  int options = 0;
  for (const VerbInfo& verb : verb_table()) {
    for (const config::Option& option : config::option_table()) {
      if (!option.serves(verb.verb)) {
        continue;
      }
      ++options;
      const std::string verb_name = config::name_of(verb.verb);
      const std::string name = "--" + std::string(option.key);
      EXPECT_NE(hint_of({verb_name, name + "=", "--json"}), "no error") << name;
      if (option.is_switch()) {
        continue;
      }
      // No text is a text, where it is said to lead away from something.
      EXPECT_EQ(hint_of({verb_name, name, ""}) == "no error",
                option.key == "negative-prompt")
          << name;
      EXPECT_NE(hint_of({verb_name, name, "--json"}), "no error") << name;
      EXPECT_EQ(value_of(parse_command_line({verb_name, name + "=--json"}),
                         std::string(option.key)),
                "--json");
      if (option.letter != 0) {
        const std::string letter = std::string("-") + option.letter;
        EXPECT_NE(hint_of({verb_name, letter + "=", "--json"}), "no error");
        EXPECT_NE(hint_of({verb_name, letter, "-q"}), "no error");
        EXPECT_EQ(value_of(parse_command_line({verb_name, letter + "=x"}),
                           std::string(option.key)),
                  "x");
        EXPECT_EQ(value_of(parse_command_line({verb_name, letter, "-"}),
                           std::string(option.key)),
                  "-");
      }
    }
  }
  EXPECT_GT(options, 80);
}

TEST(CommandLine, ReadsTheTopicOfHelp) {
  EXPECT_EQ(parse_command_line({"help", "json"}).topic->name, "json");
  EXPECT_EQ(parse_command_line({"help", "verify"}).verb->verb,
            config::Verb::verify);
  EXPECT_TRUE(parse_command_line({"help"}).help);
  EXPECT_EQ(hint_of({"help", "jsno"}), "did you mean 'json'?");
}

TEST(CommandLine, SuggestsFlagsAndVerbs) {
  EXPECT_EQ(hint_of({"sample", "--stpes", "3"}), "did you mean '--steps'?");
  EXPECT_EQ(hint_of({"smaple"}), "did you mean 'sample'?");
  EXPECT_EQ(hint_of({"--steps", "3"}), "for example troupe sample --steps …");
}

TEST(CommandLine, WantsAValueForEveryOption) {
  EXPECT_EQ(hint_of({"sample", "--steps"}), "see troupe sample --help");
}

}  // namespace
}  // namespace troupe::actors

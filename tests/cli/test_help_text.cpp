#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

#include "actors/cli/help_text.h"
#include "actors/cli/help_topics.h"
#include "config/enum_names.h"

namespace troupe::actors {
namespace {

std::size_t num_characters(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) >> 6U) != 2; }));
}

void expect_narrow(const std::string& what, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(num_characters(line), kHelpWidth) << what << ": " << line;
  }
}

/// The options that a help has a row for.
std::set<std::string> rows_of(const std::string& text) {
  std::set<std::string> keys;
  const std::regex row("\n  (?:-., |    )--([a-z0-9-]+)");
  for (std::sregex_iterator at(text.begin(), text.end(), row), end; at != end;
       ++at) {
    keys.insert((*at)[1]);
  }
  return keys;
}

TEST(HelpText, NamesEveryOptionOfTheVerb) {
  for (const VerbInfo& verb : verb_table()) {
    std::set<std::string> keys = {"config"};
    for (const config::Option& option : config::option_table()) {
      if (option.serves(verb.verb)) {
        keys.emplace(option.key);
      }
    }
    EXPECT_EQ(rows_of(help_text(verb, true)), keys);
  }
}

TEST(HelpJson, SaysWhatEveryFieldMeans) {
  for (const JsonSection& section : json_sections()) {
    for (const JsonField& field : section.fields) {
      EXPECT_FALSE(field.meaning.empty()) << section.of << ": " << field.path;
      EXPECT_FALSE(field.meaning.ends_with('.')) << field.path;
    }
  }
}

TEST(HelpText, ShowsOfManyOptionsThoseThatAreUsedMost) {
  const std::string text = help_text(*find_verb("sample"), false);
  const std::set<std::string> keys = rows_of(text);
  EXPECT_EQ(keys.size(), 25U);
  for (const char* key : {"model", "prompt", "out", "method", "steps"}) {
    EXPECT_TRUE(keys.contains(key)) << key;
  }
  EXPECT_NE(text.find("troupe sample --help-all shows all "),
            std::string::npos);
  EXPECT_LT(rows_of(help_text(*find_verb("bench"), false)).size(), 30U);
  EXPECT_EQ(help_text(*find_verb("verify"), false),
            help_text(*find_verb("verify"), true));
}

TEST(HelpText, NamesNoOptionThatTheVerbDoesNotTake) {
  const std::regex name("--([a-z][a-z0-9-]*)");
  for (const VerbInfo& verb : verb_table()) {
    for (const bool all : {false, true}) {
      const std::string text = help_text(verb, all);
      for (std::sregex_iterator at(text.begin(), text.end(), name), end;
           at != end; ++at) {
        const std::string key = (*at)[1];
        const config::Option* option = config::find_option(key);
        EXPECT_TRUE(option != nullptr ? option->serves(verb.verb)
                                      : key == "config" || key == "help-all")
            << config::name_of(verb.verb) << ": --" << key;
      }
    }
  }
}

TEST(HelpText, HasNoTextOfAnotherVerb) {
  for (const VerbInfo& verb : verb_table()) {
    const std::string text = help_text(verb, true);
    for (const VerbInfo& other : verb_table()) {
      const std::string name = config::name_of(other.verb);
      EXPECT_TRUE(other.verb == verb.verb ||
                  text.find(" " + name + ": ") == std::string::npos)
          << config::name_of(verb.verb) << " says what " << name << " does";
    }
  }
}

TEST(HelpText, FitsIntoATerminal) {
  expect_narrow("help", help_overview());
  for (const VerbInfo& verb : verb_table()) {
    for (const bool all : {false, true}) {
      expect_narrow(config::name_of(verb.verb), help_text(verb, all));
    }
  }
  for (const HelpTopic& topic : help_topics()) {
    expect_narrow(topic.name, topic.text);
  }
}

TEST(HelpText, BreaksLinesAtSpaces) {
  EXPECT_EQ(wrapped("  --key", "what it does", 12),
            "  --key     what it does\n");
  EXPECT_EQ(wrapped("  --a-long-key", "what it does", 6),
            "  --a-long-key\n      what it does\n");
  const std::string word(40, 'x');
  EXPECT_EQ(wrapped("", word + " " + word.substr(1) + " y", 2),
            "  " + word + "\n  " + word.substr(1) + " y\n");
  const std::string sigmas = "σσσσσσσσσσσσσσσσσσσσσσσσσσσσσσσσσσσσσσσ";
  EXPECT_EQ(wrapped("", sigmas + " " + sigmas, 0),
            sigmas + " " + sigmas + "\n");
}

TEST(HelpTopics, TakeNameAndSummaryFromThePage) {
  const std::string overview = help_overview();
  std::set<std::string> names;
  for (const HelpTopic& topic : help_topics()) {
    EXPECT_TRUE(names.insert(topic.name).second) << topic.name;
    EXPECT_EQ(find_verb(topic.name), nullptr) << topic.name;
    EXPECT_TRUE(
        topic.text.starts_with(topic.name + ": " + topic.summary + "\n="));
    EXPECT_NE(overview.find("\n  " + topic.name + " "), std::string::npos);
    EXPECT_NE(overview.find(topic.summary + "\n"), std::string::npos);
    EXPECT_TRUE(topic.text.ends_with("\n"));
  }
  for (const char* name :
       {"samplers", "methods", "prompts", "machines", "slurm", "gpus", "memory",
        "bytes", "glossary", "json", "exit-codes", "figures"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

}  // namespace
}  // namespace troupe::actors

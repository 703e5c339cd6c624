#include <gtest/gtest.h>

#include "actors/artefacts/summary.h"
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

/// What is wrong with them; empty: nothing.
std::string refusal_of(const std::vector<std::string>& arguments) {
  try {
    (void)parse_command_line(arguments);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    return "[" + error.place() + "] " + error.message();
  }
  return {};
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

TEST(CommandLine, RefusesTwoValuesOfOneOption) {
  using Words = std::vector<std::string>;
  const auto expect = [](const Words& words, const std::string& says) {
    EXPECT_EQ(refusal_of(words), says);
  };
  expect({"sample", "--sampler", "ddim", "--sampler", "heun"},
         "[--sampler] given twice, with two values: 'ddim' and 'heun'");
  expect({"sample", "-n", "4", "--num_images_per_prompt=8"},
         "[--samples] given twice, with two values: '4' and '8'");
  expect({"sample", "--config", "a.toml", "--config", "b.toml"},
         "[--config] given twice, with two values: 'a.toml' and 'b.toml'");
  expect({"sample", "--karras", "--karras=false"},
         "[--karras] given twice, with two values: 'true' and 'false'");
  for (const Words& words :
       {Words{"sample", "-n", "4", "--samples", "4", "--num-samples=4"},
        Words{"sample", "--json", "--json=yes", "-v", "-v"},
        Words{"sample", "--save", "latents=a.npz", "--save",
              "trajectory=b.npz"},
        Words{"schedule", "--sampler", "ddim", "--sampler", "heun"},
        Words{"verify", "--config", "a.toml", "--config", "a.toml"}}) {
    expect(words, "");
  }
}

TEST(CommandLine, KeepsEveryPrompt) {
  const CommandLine line = parse_command_line(
      {"sample", "-p", "a cat", "--text=a dog", "--prompt", "a cat"});
  std::vector<std::string> prompts;
  for (const config::Setting& flag : line.flags) {
    EXPECT_EQ(flag.key, "prompt");
    prompts.push_back(flag.text);
  }
  EXPECT_EQ(prompts, (std::vector<std::string>{"a cat", "a dog", "a cat"}));
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
      // No text is a text, where a picture shall show it, or not.
      const bool may_be_empty =
          option.key == "prompt" || option.key == "negative-prompt";
      const std::vector<std::string> empty = {verb_name, name + "=", "--json"};
      EXPECT_EQ(hint_of(empty) == "no error", may_be_empty) << name;
      if (may_be_empty) {
        EXPECT_EQ(value_of(parse_command_line(empty), "json"), "true");
      }
      if (option.is_switch()) {
        continue;
      }
      EXPECT_EQ(hint_of({verb_name, name, ""}) == "no error", may_be_empty)
          << name;
      EXPECT_NE(hint_of({verb_name, name, "--json"}), "no error") << name;
      EXPECT_EQ(value_of(parse_command_line({verb_name, name + "=--json"}),
                         std::string(option.key)),
                "--json");
      if (option.letter != 0) {
        const std::string letter = std::string("-") + option.letter;
        EXPECT_EQ(hint_of({verb_name, letter + "=", "--json"}) == "no error",
                  may_be_empty);
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

TEST(CommandLine, TakesNoTextWhereThatIsAText) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--negative-prompt=", "--seed", "7"},
        {"--seed", "7", "--negative_prompt="},
        {"--negative-prompt", "", "--seed=7"}}) {
    std::vector<std::string> arguments = {"sample"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const CommandLine line = parse_command_line(arguments);
    EXPECT_EQ(value_of(line, "negative-prompt"), "");
    EXPECT_EQ(value_of(line, "seed"), "7");
    EXPECT_TRUE(line.files.empty());
  }
}

// diffusers#3664
TEST(CommandLine, UnderstandsTheNamesOfOtherPrograms) {
  const CommandLine line =
      parse_command_line({"sample",
                          "--sampling-method",
                          "euler_a",
                          "-W",
                          "512",
                          "-H384",
                          "--ddim_steps=20",
                          "--cfg",
                          "7",
                          "--image_size=64",
                          "--outdir",
                          "x",
                          "--n_samples",
                          "2",
                          "--from-file",
                          "p.txt",
                          "--torch_dtype",
                          "float16",
                          "--pretrained_model_name_or_path",
                          "dir"});
  EXPECT_EQ(value_of(line, "sampler"), "euler_a");
  EXPECT_EQ(value_of(line, "width"), "512");
  EXPECT_EQ(value_of(line, "height"), "384");
  EXPECT_EQ(value_of(line, "steps"), "20");
  EXPECT_EQ(value_of(line, "guidance"), "7");
  EXPECT_EQ(value_of(line, "size"), "64");
  EXPECT_EQ(value_of(line, "out"), "x");
  EXPECT_EQ(value_of(line, "samples"), "2");
  EXPECT_EQ(value_of(line, "prompt-file"), "p.txt");
  EXPECT_EQ(value_of(line, "dtype"), "float16");
  EXPECT_EQ(value_of(line, "model"), "dir");
}

/// Of an option that there is not.
std::string whole_refusal_of(const std::string& option) {
  try {
    (void)parse_command_line({"sample", option, "1"});
  } catch (const Error& error) {
    return one_line(error);
  }
  return {};
}

// The nearest by its letters would draw another picture.
TEST(CommandLine, SuggestsNothingThatMeansAnotherThing) {
  for (const char* option : {"--guidance-rescale",
                             "--original-size",
                             "--target-size",
                             "--crop",
                             "--prompt-3",
                             "--negative-prompt-3",
                             "--variant",
                             "--max-steps",
                             "--base-shift",
                             "--max-shift",
                             "--method-name",
                             "--sigma-max",
                             "--noise-offset",
                             "--true-cfg-scale",
                             "--image-guidance-scale",
                             "--sampling-rate",
                             "--weights",
                             "--clip-guidance-scale",
                             "--refiner-steps",
                             "--hires-steps",
                             "--start-step",
                             "--end-step"}) {
    EXPECT_EQ(whole_refusal_of(option).find("did you mean"), std::string::npos)
        << whole_refusal_of(option);
  }
  EXPECT_NE(whole_refusal_of("--seeds").find("--noise torch"),
            std::string::npos);
  EXPECT_NE(whole_refusal_of("--variant").find("fp16"), std::string::npos);
  EXPECT_NE(whole_refusal_of("--schedule").find("--sigma-spacing"),
            std::string::npos);
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

// What inspect says of models that take prompts, and of bundled ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "config/bundled_models.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;

nlohmann::json described(const std::string& path) {
  const Outcome outcome = run({"inspect", path, "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.json()["items"][0];
}

std::string shown_text(const std::string& path) {
  const Outcome outcome = run({"inspect", path});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.out;
}

bool mentions(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

std::string golden_path(const std::string& name) {
  return std::string(TROUPE_GOLDEN) + "/" + name;
}

TEST(InspectedPipeline, HasItsTextEncodersAndTokenizers) {
  const auto sdxl = described(golden_path("pipeline_sdxl"));
  EXPECT_EQ(sdxl["takes_prompts"], true);
  ASSERT_EQ(sdxl["text_encoders"].size(), 2U);
  std::int64_t width = 0;
  for (const auto& [number, name, class_name] :
       {std::tuple(0, "", "CLIPTextModel"),
        std::tuple(1, "_2", "CLIPTextModelWithProjection")}) {
    const auto& encoder = sdxl["text_encoders"][number];
    EXPECT_EQ(encoder["name"], std::string("text_encoder") + name);
    EXPECT_EQ(encoder["class"], class_name);
    EXPECT_GT(encoder["layers"], 0);
    EXPECT_GT(encoder["memory_bytes_f32"], encoder["parameters"]);
    width += encoder["width"].get<std::int64_t>();
    const auto& tokenizer = encoder["tokenizer"];
    EXPECT_EQ(tokenizer["name"], std::string("tokenizer") + name);
    EXPECT_EQ(tokenizer["kind"], "CLIP");
    EXPECT_GT(tokenizer["vocabulary"], 0);
    EXPECT_EQ(tokenizer["longest_prompt"], 77);
    EXPECT_EQ(tokenizer["stand_in"], false);
  }
  // Both encoders' numbers stand side by side.
  EXPECT_EQ(width, 40);
  const auto pixart = described(golden_path("pipeline_pixart"));
  ASSERT_EQ(pixart["text_encoders"].size(), 1U);
  EXPECT_EQ(pixart["text_encoders"][0]["class"], "T5EncoderModel");
  EXPECT_EQ(pixart["text_encoders"][0]["tokenizer"]["kind"], "T5");
  EXPECT_EQ(pixart["text_encoders"][0]["tokenizer"]["longest_prompt"], 300);
}

TEST(InspectedPipeline, TakesPromptsAndHasNoClasses) {
  const std::string text = shown_text(golden_path("pipeline_sd15"));
  EXPECT_TRUE(mentions(text, "\n  text_encoder: CLIPTextModel, width "))
      << text;
  EXPECT_TRUE(mentions(text, "\n  tokenizer: CLIP, ")) << text;
  EXPECT_TRUE(mentions(text, "prompts of up to 77 tokens")) << text;
  EXPECT_TRUE(text.ends_with("\n  takes prompts\n")) << text;
  EXPECT_FALSE(mentions(text, "classes")) << text;
  EXPECT_FALSE(mentions(text, "stand-in")) << text;
  // Nothing says how the network's prompts are encoded.
  EXPECT_TRUE(mentions(shown_text(golden_path("pixart_default")),
                       "\n  takes prompts that were encoded elsewhere"));
}

TEST(InspectedPipeline, SaysWhichPartsAreMissing) {
  const TempFolder folder;
  const fs::path model = folder.path("model");
  fs::copy(golden_path("pipeline_sd15"), model, fs::copy_options::recursive);
  fs::remove_all(model / "tokenizer");
  const auto without = described(model)["text_encoders"][0];
  EXPECT_EQ(without["class"], "CLIPTextModel");
  EXPECT_EQ(without["tokenizer"]["problem"], "the pipeline has no tokenizer");
  fs::remove_all(model / "text_encoder");
  const std::string text = shown_text(model);
  EXPECT_TRUE(
      mentions(text, "  text_encoder: the pipeline has no text encoder\n"))
      << text;
  EXPECT_TRUE(mentions(text, "  tokenizer: the pipeline has no tokenizer\n"))
      << text;
  EXPECT_TRUE(text.ends_with("encoded elsewhere: --prompt-embeds\n")) << text;
}

TEST(InspectedBundledModel, IsDescribedByItsName) {
  for (const config::BundledModel& model : config::bundled_models()) {
    const auto item = described(std::string(model.name));
    EXPECT_EQ(item["kind"], "bundled") << model.name;
    EXPECT_EQ(item["description"], model.description);
    EXPECT_EQ(item["text_encoders"].size(), model.encoders.size())
        << model.name;
    for (const auto& encoder : item["text_encoders"]) {
      EXPECT_EQ(encoder["tokenizer"]["stand_in"], true) << model.name;
    }
    EXPECT_EQ(item["takes_prompts"], !model.encoders.empty()) << model.name;
    EXPECT_EQ(item["classes"] == 0, item["takes_prompts"]) << model.name;
  }
  const std::string text = shown_text("tiny-sd15");
  EXPECT_TRUE(mentions(text, "tokenizer: a stand-in, bundled")) << text;
  EXPECT_FALSE(mentions(shown_text("dit-tiny"), "stand-in"));
}

/// A path that exists goes before a bundled model.
TEST(InspectedBundledModel, GivesWayToAFileOfItsName) {
  const TempFolder folder;
  const fs::path before = fs::current_path();
  fs::copy(golden_path("pipeline_pixart"), folder.path("tiny-sd15"),
           fs::copy_options::recursive);
  fs::current_path(folder.path());
  const Outcome outcome = run({"inspect", "tiny-sd15", "--json"});
  fs::current_path(before);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["items"][0]["kind"], "checkpoint");
  EXPECT_EQ(outcome.json()["items"][0]["pipeline"], "PixArtSigmaPipeline");
  const Outcome unknown = run({"inspect", "tiny-sd16"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_TRUE(mentions(unknown.err, "a name that --random-weights takes"))
      << unknown.err;
}

TEST(InspectedModel, HasAUnitAtEveryNumber) {
  const std::string text = shown_text("tiny-sd15");
  for (const char* says :
       {" blocks, width ", " channels, widest ", " levels, ",
        " transformer blocks, caption width ",
        " channels, latents [4, 16, 16] (channels, height, width)\n",
        "CLIPTextModel, width 32 channels, ", " in f32, "}) {
    EXPECT_TRUE(mentions(text, says)) << says << "\n" << text;
  }
  EXPECT_TRUE(mentions(shown_text(TROUPE_DEMO), " million parameters, "));
}

TEST(InspectedPicture, SaysThatAStandInReadItsPrompt) {
  const TempFolder folder;
  const auto picture = [&](const std::vector<std::string>& model,
                           const std::string& name) {
    std::vector<std::string> arguments = {"sample",         "--steps", "1",
                                          "--progress",     "none",    "-o",
                                          folder.path(name)};
    arguments.insert(arguments.end(), model.begin(), model.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return folder.path(name);
  };
  const std::string random =
      picture({"--random-weights", "tiny-sd15", "-p", "a fox"}, "a.png");
  EXPECT_EQ(described(random)["stand_in_tokenizer"], true);
  EXPECT_TRUE(mentions(shown_text(random), "  a stand-in tokenizer"));
  const std::string read =
      picture({"-m", golden_path("pipeline_sd15"), "-p", "a fox"}, "b.png");
  EXPECT_EQ(described(read)["stand_in_tokenizer"], false);
  EXPECT_FALSE(mentions(shown_text(read), "stand-in"));
  // No tokenizer read anything.
  const std::string none =
      picture({"--random-weights", "dit-tiny", "--class", "1"}, "c.png");
  EXPECT_EQ(described(none)["stand_in_tokenizer"], false);
}

}  // namespace
}  // namespace troupe::test

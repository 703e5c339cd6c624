// Whole runs against what diffusers' pipelines draw: from a prompt to a
// picture.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/artefacts/png.h"
#include "models/files/safetensors.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;

/// The folders of pipelines that diffusers saved, with what it draws.
constexpr const char* kPixart = "pipeline_pixart";
constexpr const char* kBins = "pipeline_pixart_bins";
constexpr const char* kSd15 = "pipeline_sd15";
constexpr const char* kSd21 = "pipeline_sd21";
constexpr const char* kSdxl = "pipeline_sdxl";
constexpr const char* kRefiner = "pipeline_sdxl_refiner";

fs::path golden_folder(const std::string& name) {
  return fs::path(TROUPE_GOLDEN) / name;
}

nlohmann::json read_json(const fs::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

/// ‖a − b‖ / ‖b‖.
double relative_l2(std::span<const float> a, std::span<const float> b) {
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double d = static_cast<double>(a[i]) - b[i];
    difference += d * d;
    norm += static_cast<double>(b[i]) * b[i];
  }
  return std::sqrt(difference / norm);
}

/// A copy of the golden pipeline that a test may change.
class PromptPipelineFolder {
 public:
  explicit PromptPipelineFolder(const std::string& name = kPixart) {
    fs::copy(golden_folder(name), folder_.path("model"),
             fs::copy_options::recursive);
  }

  void remove(const std::string& name) const {
    fs::remove_all(fs::path(folder_.path("model")) / name);
  }
  /// Sets one key of model_index.json.
  void set(const std::string& key, const nlohmann::json& value) const {
    nlohmann::json index =
        nlohmann::json::parse(folder_.read("model/model_index.json"));
    index[key] = value;
    (void)folder_.write("model/model_index.json", index.dump());
  }
  [[nodiscard]] Outcome run_verb(const std::string& verb,
                                 std::vector<std::string> more) const {
    std::vector<std::string> arguments = {
        verb, "--model", folder_.path("model"), "--dtype", "f32"};
    arguments = overridden(std::move(arguments), more);
    return run(std::move(arguments));
  }
  /// Nothing that encodes prompts is here, and the program says what helps.
  void expect_no_prompts(const std::string& says) const {
    const Outcome outcome =
        sample({"--prompt", "a cat", "--out", path("a.png")});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("--prompt-embeds"), std::string::npos)
        << outcome.err;
    EXPECT_FALSE(fs::exists(path("a.png")));
  }
  [[nodiscard]] Outcome sample(std::vector<std::string> more) const {
    return run_verb("sample", std::move(more));
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return folder_.path(name);
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    return folder_.read(name);
  }

 private:
  TempFolder folder_;
};

class PipelineGolden
    : public testing::TestWithParam<std::tuple<const char*, std::size_t>> {};

TEST_P(PipelineGolden, DrawsWhatDiffusersDraws) {
  const auto& [name_of_pipeline, index] = GetParam();
  const fs::path source = golden_folder(name_of_pipeline);
  const nlohmann::json golden = read_json(source / "golden.json").at(index);
  const models::SafetensorsFile expected(source / "golden.safetensors");
  const auto expect = [&](const std::string& name) {
    return expected.read(
        *expected.find(std::to_string(std::get<1>(GetParam())) + "." + name));
  };
  const PromptPipelineFolder folder(name_of_pipeline);
  std::vector<std::string> arguments = {
      "--prompt", golden.at("prompt"),
      "--size",   golden.at("size"),
      "--seed",   std::to_string(golden.at("seed").get<int>()),
      "--noise",  "torch",
      "--save",   "latents=" + folder.path("out.safetensors"),
      "--out",    folder.path("out.png")};
  if (!golden.at("negative").is_null()) {
    arguments.insert(arguments.end(),
                     {"--negative-prompt", golden.at("negative")});
  }
  const Outcome outcome = folder.sample(arguments);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;

  const models::SafetensorsFile saved(folder.path("out.safetensors"));
  const Tensor latents = saved.read(*saved.find("latents")).item(0);
  const Tensor their_latents = expect("latents");
  ASSERT_EQ(latents.shape(), their_latents.shape());
  const double error =
      relative_l2(latents.span<float>(), their_latents.span<float>());
  EXPECT_LE(error, 1e-4);
  RecordProperty("relative_l2", std::to_string(error * 1e6) + "e-6");

  const std::string file = folder.read("out.png");
  const actors::Image image =
      actors::decode_png("out.png", std::as_bytes(std::span(file)));
  const Tensor picture = expect("picture");
  ASSERT_EQ(picture.shape(), Shape({image.height, image.width, 3}));
  double furthest = 0.0;
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    furthest = std::max(
        furthest, std::abs(image.rgb[i] / 255.0 - picture.span<float>()[i]));
  }
  EXPECT_LE(furthest, 1.0 / 255.0);
}
INSTANTIATE_TEST_SUITE_P(
    Prompts, PipelineGolden,
    testing::Combine(testing::Values(kPixart, kBins, kSd15, kSd21, kSdxl),
                     testing::Range(std::size_t{0}, std::size_t{2})));

/// A pipeline, and which case of its options.json.
using OptionCase = std::pair<std::string, std::size_t>;

std::vector<OptionCase> option_cases() {
  std::vector<OptionCase> cases;
  for (const char* name : {kPixart, kSd15, kSd21, kSdxl, kRefiner}) {
    const auto count = read_json(golden_folder(name) / "options.json").size();
    for (std::size_t i = 0; i < count; ++i) {
      cases.emplace_back(name, i);
    }
  }
  return cases;
}

class OptionsGolden : public testing::TestWithParam<OptionCase> {};

/// Options that diffusers' call has by another name: the latents of its
/// pictures; and the recipe of each picture gives the same bytes again.
TEST_P(OptionsGolden, DrawWhatDiffusersDraws) {
  const auto& [name, index] = GetParam();
  const fs::path source = golden_folder(name);
  const nlohmann::json golden = read_json(source / "options.json").at(index);
  SCOPED_TRACE(golden.dump());
  const models::SafetensorsFile expected(source / "options.safetensors");
  const PromptPipelineFolder folder(name);
  std::vector<std::string> arguments = golden.at("options");
  std::vector<std::string> given;  // a recipe names it by its hash alone
  const auto init = std::ranges::find(arguments, "--init-latents");
  if (init != arguments.end()) {
    given = {*init, source / init[1]};
    arguments.erase(init, init + 2);
  }
  for (const std::string prompt : golden.at("prompts")) {
    arguments.insert(arguments.end(), {"--prompt", prompt});
  }
  const auto draw = [&](std::vector<std::string> more) {
    more.insert(more.end(), given.begin(), given.end());
    more.insert(more.end(),
                {"--save", "latents=" + folder.path("out.safetensors"),
                 "--exists", "replace", "--json"});
    const Outcome outcome = folder.sample(std::move(more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json();
  };
  arguments.insert(arguments.end(),
                   {"--noise", "torch", "--out", folder.path("{index}.png")});
  const nlohmann::json drawn = draw(arguments);
  const models::SafetensorsFile saved(folder.path("out.safetensors"));
  const Tensor latents = saved.read(*saved.find("latents"));
  const Tensor theirs = expected.read(*expected.find(std::to_string(index)));
  ASSERT_EQ(latents.shape(), theirs.shape());
  EXPECT_LE(relative_l2(latents.span<float>(), theirs.span<float>()), 1e-4);
  for (const nlohmann::json& image : drawn.at("images")) {
    const nlohmann::json again =
        draw({"--from", image.at("path"), "--out", folder.path("again.png")});
    EXPECT_EQ(again.at("latents_xxh3"), image.at("latents_xxh3"));
  }
}
INSTANTIATE_TEST_SUITE_P(Pipelines, OptionsGolden,
                         testing::ValuesIn(option_cases()));

/// It begins with a picture, which Troupe does not read.
TEST(Refiner, NeedsTheLatentsOfAnotherRun) {
  const PromptPipelineFolder folder(kRefiner);
  const auto expect_refused = [&](std::vector<std::string> more,
                                  const std::string& says) {
    more.insert(more.end(),
                {"--prompt", "a cat", "--out", folder.path("a.png")});
    const Outcome outcome = folder.sample(std::move(more));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  };
  expect_refused({}, "give --denoising-start X, and the latents");
  expect_refused({"--denoising-start", "0.5"}, "give those that the other run");
  expect_refused({"--prompt-2", "x"}, "one text for a prompt");
  expect_refused({"--target-size", "8x8"}, "told --aesthetic-score");
}

TEST(PromptPipeline, NeedsItsEncoderForAPrompt) {
  const PromptPipelineFolder folder;
  folder.remove("text_encoder");
  folder.expect_no_prompts("the pipeline has no text encoder");
}

TEST(PromptPipeline, NeedsItsTokenizerForAPrompt) {
  const PromptPipelineFolder folder;
  folder.remove("tokenizer");
  folder.expect_no_prompts("the pipeline has no tokenizer");
}

TEST(PromptPipeline, NeedsTheWeightsOfItsEncoderForAPrompt) {
  const PromptPipelineFolder folder;
  folder.remove("text_encoder/model.safetensors");
  folder.expect_no_prompts("no weights: expected model.safetensors");
  folder.remove("text_encoder/config.json");
  folder.expect_no_prompts("text_encoder/config.json");
}

TEST(PromptPipeline, NeedsAnEncoderThatThereIsForAPrompt) {
  const PromptPipelineFolder folder;
  folder.set("text_encoder", {"transformers", "FooEncoderModel"});
  folder.expect_no_prompts(
      "got class 'FooEncoderModel', expected one of CLIPTextModel");
}

/// The command that converts them is of more help.
TEST(PromptPipeline, NamesTheCommandForAPickledEncoder) {
  const PromptPipelineFolder folder;
  const fs::path encoder = folder.path("model/text_encoder");
  fs::rename(encoder / "model.safetensors", encoder / "pytorch_model.bin");
  const Outcome outcome =
      folder.sample({"--prompt", "a cat", "--out", folder.path("a.png")});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_TRUE(outcome.err.ends_with("/convert_checkpoint.py " +
                                    folder.path("model") + "\n"))
      << outcome.err;
}

TEST(PromptPipeline, RefusesTheEncoderOfAnotherModel) {
  const PromptPipelineFolder folder;
  folder.remove("text_encoder");
  fs::copy(std::string(TROUPE_GOLDEN) + "/text_t5",
           folder.path("model/text_encoder"));
  const Outcome outcome =
      folder.sample({"--prompt", "a cat", "--out", folder.path("a.png")});
  EXPECT_EQ(outcome.exit_code, 6) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_NE(outcome.err.find("makes vectors of 32 numbers"), std::string::npos)
      << outcome.err;
}

TEST(PromptPipeline, TakesAnEncoderOfNullsForNone) {
  const PromptPipelineFolder folder;
  folder.set("text_encoder", {nullptr, nullptr});
  folder.expect_no_prompts("the pipeline has no text encoder");
}

TEST(PromptPipeline, NamesThePipelinesThereAre) {
  const PromptPipelineFolder folder;
  folder.set("_class_name", "PixArtAlphaPipeline");
  folder.expect_no_prompts(
      "got 'PixArtAlphaPipeline', expected one of PixArtSigmaPipeline, "
      "StableDiffusionPipeline, StableDiffusionXLPipeline");
}

/// What Stable Diffusion XL leads away from where nothing is said.
TEST(PromptPipeline, TakesAnEmptyTextForZerosIfItsFolderSaysSo) {
  const PromptPipelineFolder folder(kSdxl);
  const auto latents = [&](std::vector<std::string> more) {
    more.insert(more.end(),
                {"--prompt", "a cat", "--steps", "2", "--out",
                 folder.path("a.png"), "--exists", "replace", "--json"});
    const Outcome outcome = folder.sample(more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json()["latents_xxh3"];
  };
  const auto empty = latents({"--negative-prompt", ""});
  EXPECT_NE(latents({}), empty);
  folder.set("force_zeros_for_empty_prompt", false);
  EXPECT_EQ(latents({}), empty);
}

TEST(PromptPipeline, DrawsFromEncodedPromptsWithoutItsEncoder) {
  const PromptPipelineFolder folder;
  const std::string embeds = folder.path("embeds.safetensors");
  ASSERT_EQ(folder.run_verb("encode", {"--prompt", "A cat", "--out", embeds})
                .exit_code,
            0);
  const Outcome by_prompt = folder.sample(
      {"--prompt", "A cat", "--out", folder.path("a.png"), "--json"});
  ASSERT_EQ(by_prompt.exit_code, 0) << by_prompt.err;
  // Without its weights, without a class that can be run, without the folder.
  const auto expect_the_same_by_embeds = [&] {
    const Outcome by_embeds =
        folder.sample({"--prompt-embeds", embeds, "--out", folder.path("b.png"),
                       "--exists", "replace", "--json"});
    ASSERT_EQ(by_embeds.exit_code, 0) << by_embeds.err;
    EXPECT_EQ(by_embeds.json()["latents_xxh3"],
              by_prompt.json()["latents_xxh3"]);
  };
  folder.remove("text_encoder/model.safetensors");
  expect_the_same_by_embeds();
  folder.set("text_encoder", {"transformers", "FooEncoderModel"});
  expect_the_same_by_embeds();
  folder.remove("text_encoder");
  folder.remove("tokenizer");
  expect_the_same_by_embeds();
}

/// encode_prompt of diffusers returns a negative row for each prompt.
class NegativeRows : public testing::Test {
 protected:
  NegativeRows() {
    const std::string made = folder_.path("made.safetensors");
    const Outcome encoded = folder_.run_verb(
        "encode", {"--prompt-file", prompts(), "--negative-prompt", "rain",
                   "--out", made});
    EXPECT_EQ(encoded.exit_code, 0) << encoded.err;
    const models::SafetensorsFile file(made);
    for (const auto& entry : file.header().entries) {
      tensors_.push_back({std::string(entry.name), file.read(entry)});
    }
  }

  /// Writes the file with `count` rows of the negative prompt, the last of
  /// which is `scale` times the first; draws with it.
  [[nodiscard]] Outcome draw(std::int64_t count, float scale) const {
    std::vector<NamedTensor> rows;
    for (const auto& [name, tensor] : tensors_) {
      if (!name.starts_with("negative_")) {
        rows.push_back({name, tensor});
        continue;
      }
      Tensor all(with_rows(count, tensor.item(0).shape()), DType::f32);
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t k = 0; k < tensor.num_elements(); ++k) {
          all.item(i).data<float>()[k] =
              tensor.data<float>()[k] * (i + 1 == count ? scale : 1.0F);
        }
      }
      rows.push_back({name, std::move(all)});
    }
    const std::string path = folder_.path("rows.safetensors");
    models::write_safetensors(path, rows);
    return folder_.sample({"--prompt-embeds", path, "--steps", "2", "--samples",
                           "2", "--out", folder_.path("out"), "--exists",
                           "replace", "--json"});
  }

 private:
  [[nodiscard]] std::string prompts() const {
    std::ofstream(folder_.path("prompts.txt")) << "a cat\na dog\na hen\n";
    return folder_.path("prompts.txt");
  }

  PromptPipelineFolder folder_{kSdxl};
  std::vector<NamedTensor> tensors_;
};

TEST_F(NegativeRows, AreOneIfTheyDifferByRoundingOnly) {
  const Outcome one = draw(1, 1.0F);
  ASSERT_EQ(one.exit_code, 0) << one.err;
  for (const float scale : {1.0F, 1.00001F}) {
    const Outcome three = draw(3, scale);
    ASSERT_EQ(three.exit_code, 0) << three.err;
    EXPECT_EQ(three.json()["latents_xxh3"], one.json()["latents_xxh3"]);
  }
}

TEST_F(NegativeRows, AreOfEachPromptIfTheyDiffer) {
  const Outcome one = draw(1, 1.0F);
  const Outcome differ = draw(3, 1.1F);
  ASSERT_EQ(differ.exit_code, 0) << differ.err;
  for (std::size_t i = 0; i < 6; ++i) {
    const auto hash = [i](const Outcome& outcome) {
      return outcome.json()["images"][i]["latents_xxh3"];
    };
    EXPECT_EQ(hash(differ) == hash(one), i % 3 != 2) << i;
  }
}

TEST_F(NegativeRows, AreRefusedIfTheyAreNotOfThesePrompts) {
  const Outcome two = draw(2, 1.0F);
  EXPECT_EQ(two.exit_code, 2) << two.err;
  EXPECT_NE(two.err.find("got 2 rows, expected 1, or 3"), std::string::npos)
      << two.err;
}

}  // namespace
}  // namespace troupe::test

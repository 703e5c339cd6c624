// Refused prompts, encoders and encoded prompts, and what the messages name.

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "models/files/safetensors.h"
#include "tests/cli/prompt_runs.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;

/// What diffusers does where a pipeline and its network disagree is an error of
/// Python, after the prompts have been encoded.
TEST(PooledVector, ThatOnlyThePipelineHasIsRefused) {
  const ChangedPipeline xl("pipeline_sdxl");
  xl.set("unet/config.json", {{"addition_embed_type", nullptr}});
  xl.change_tensors("unet/diffusion_pytorch_model.safetensors",
                    [](std::vector<NamedTensor>& tensors) {
                      std::erase_if(tensors, [](const NamedTensor& named) {
                        return named.name.starts_with("add_embedding.");
                      });
                    });
  const Outcome without = xl.draw("a.png");
  expect_refused(without, 2, "addition_embed_type");
  EXPECT_NE(without.err.find("StableDiffusionXLPipeline gives a pooled vector"),
            std::string::npos)
      << without.err;
  EXPECT_FALSE(fs::exists(xl.path("a.png")));
}

TEST(Autoencoder, OfOneChannelMakesGreyPictures) {
  const ChangedPipeline pipeline("pipeline_sd15");
  pipeline.set_channels(1);
  const Outcome outcome = pipeline.draw("a.png");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string png = pipeline.file("a.png");
  constexpr std::size_t kColourType = 25;
  EXPECT_EQ(png.at(kColourType), 0) << "greyscale";
  const Outcome again =
      run({"verify", pipeline.path("a.png"), "-m", pipeline.part("").string()});
  EXPECT_EQ(again.exit_code, 0) << again.err;
}

TEST(Autoencoder, OfChannelsThatNoPngHasIsRefusedBeforeWork) {
  for (const std::int64_t channels : {2, 4}) {
    const ChangedPipeline pipeline("pipeline_sd15");
    pipeline.set_channels(channels);
    const Outcome outcome = pipeline.draw("a.png");
    expect_refused(outcome, 2, "got " + std::to_string(channels) + " channels");
    EXPECT_NE(outcome.err.find("--save latents=FILE"), std::string::npos)
        << outcome.err;
    const std::string latents = pipeline.path("latents.npz");
    EXPECT_EQ(run({"sample", "-m", pipeline.part("").string(), "-p", "a cat",
                   "--steps", "2", "--save", "latents=" + latents})
                  .exit_code,
              0);
    EXPECT_TRUE(fs::exists(latents));
  }
}

/// diffusers#6753: the keys are of other pipelines' autoencoders.
TEST(Autoencoder, KeysThatThePipelineIgnoresChangeNoByte) {
  const nlohmann::json shift = {{"shift_factor", 0.5}};
  const nlohmann::json statistics = {{"latents_mean", {0.5, 0.5, 0.5, 0.5}},
                                     {"latents_std", {2.0, 2.0, 2.0, 2.0}}};
  for (const char* name :
       {"pipeline_sd15", "pipeline_pixart", "pipeline_sdxl"}) {
    const bool takes_statistics = std::string(name) == "pipeline_sdxl";
    const ChangedPipeline pipeline(name);
    ASSERT_EQ(pipeline.draw("plain.png").exit_code, 0);
    pipeline.set("vae/config.json", shift);
    const Outcome shifted = pipeline.draw("shift.png");
    ASSERT_EQ(shifted.exit_code, 0) << shifted.err;
    EXPECT_NE(shifted.err.find("shift_factor does nothing"), std::string::npos)
        << shifted.err;
    EXPECT_EQ(pipeline.file("shift.png"), pipeline.file("plain.png"));
    pipeline.set("vae/config.json", statistics);
    ASSERT_EQ(pipeline.draw("all.png").exit_code, 0);
    EXPECT_EQ(pipeline.file("all.png") == pipeline.file("plain.png"),
              !takes_statistics);
  }
}

TEST(Sizes, ThatNoPictureHasAreRefusedWithAHint) {
  const ChangedPipeline pipeline("pipeline_sd15");
  const Outcome outcome = pipeline.run_verb(
      "sample", {"--size", "33x32", "--out", pipeline.path("a.png")});
  expect_refused(outcome, 2, "the nearest that works is 34x32; ask for that");
}

/// Every id of a T5 tokenizer may be one that a CLIP encoder knows.
TEST(Tokenizer, OfAnotherKindThanTheEncodersIsRefused) {
  struct Case {
    const char* pipeline;
    const char* tokenizer_of;
    const char* says;
  };
  for (const Case& c : {Case{"pipeline_sd15", "pipeline_pixart",
                             "got one of T5, expected one "
                             "of CLIP"},
                        Case{"pipeline_pixart", "pipeline_sd15",
                             "got one of CLIP, expected "
                             "one of T5"}}) {
    const ChangedPipeline pipeline(c.pipeline);
    pipeline.take_tokenizer_of(c.tokenizer_of);
    for (const char* verb : {"sample", "encode"}) {
      const Outcome outcome = pipeline.run_verb(verb);
      expect_refused(outcome, 6, c.says);
      expect_refused(outcome, 6, pipeline.part("tokenizer").string());
      EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    }
    EXPECT_FALSE(fs::exists(pipeline.path("out.safetensors")));
    expect_refused(run({"inspect", pipeline.part("").string()}), 6, c.says);
  }
}

/// The hint for a pipeline without a tokenizer depends on the verb: `encode`
/// takes no encoded prompts.
TEST(Tokenizer, ThatIsMissingIsAnsweredWithWhatTheVerbTakes) {
  const ChangedPipeline pipeline("pipeline_sd15");
  const auto expect_hints = [&](const char* says) {
    const Outcome sampled = pipeline.run_verb("sample");
    expect_refused(sampled, 2, says);
    expect_refused(sampled, 2, "give encoded prompts with --prompt-embeds");
    const Outcome encoded = pipeline.run_verb("encode");
    expect_refused(encoded, 2, says);
    expect_refused(encoded, 2, "give a folder with the pipeline's");
  };
  fs::remove_all(pipeline.part("tokenizer"));
  expect_hints("the pipeline has no tokenizer");
  fs::create_directory(pipeline.part("tokenizer"));
  expect_hints("no tokenizer: expected tokenizer.json");
  fs::remove_all(pipeline.part("text_encoder"));
  expect_hints("the pipeline has no text encoder");
}

TEST(TextEncoder, OfWhichAVariantIsThereAloneIsNamed) {
  const ChangedPipeline pipeline("pipeline_sd15");
  const fs::path encoder = pipeline.part("text_encoder");
  fs::rename(encoder / "model.safetensors", encoder / "model.fp16.safetensors");
  const Outcome outcome = pipeline.run_verb("encode");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find(encoder.string() + ": only the variant fp16"),
            std::string::npos)
      << outcome.err;
}

TEST(Encode, NamesNoOptionThatItLacks) {
  const TempFolder folder;
  const Outcome outcome = run({"encode", "--random-weights", "dit-tiny", "-p",
                               "x", "-o", folder.path("e.safetensors")});
  expect_refused(outcome, 2, "give a model that takes prompts");
  EXPECT_EQ(outcome.err.find("--class"), std::string::npos) << outcome.err;
}

/// A file of embeddings for tiny-sdxl with other values for one tensor; without
/// any, the file lacks it.
std::string changed_embeds(const TempFolder& folder, const std::string& name,
                           const std::optional<Tensor>& value) {
  const std::string made = folder.path("made.safetensors");
  const Outcome encoded = run(
      joined({"encode", "--random-weights", kStableDiffusionXl,
              "--negative-prompt", "rain", "-o", made, "--exists", "replace"},
             kFox));
  EXPECT_EQ(encoded.exit_code, 0) << encoded.err;
  const models::SafetensorsFile file(made);
  std::vector<NamedTensor> tensors;
  for (const auto& entry : file.header().entries) {
    if (entry.name != name) {
      tensors.push_back({std::string(entry.name), file.read(entry)});
    } else if (value) {
      tensors.push_back({name, *value});
    }
  }
  models::write_safetensors(folder.path("e.safetensors"), tensors);
  return folder.path("e.safetensors");
}

TEST(PromptFiles, ThatCannotBeReadNameTheirOption) {
  const TempFolder folder;
  for (const char* name : {"no.safetensors", "no.npz"}) {
    const std::string path = folder.path(name);
    const Outcome outcome = sample({"--prompt-embeds", path});
    expect_refused(outcome, 2, "[--prompt-embeds");
    expect_refused(outcome, 2, path);
  }
  for (const std::string& path : {folder.path("no.txt"), folder.path()}) {
    const Outcome outcome = sample({"--prompt-file", path});
    expect_refused(outcome, 2, "[--prompt-file");
    expect_refused(outcome, 2, path);
  }
}

TEST(PromptEmbeds, AreNamedAsInTheirFile) {
  const TempFolder folder;
  for (const char* name :
       {"pooled_prompt_embeds", "negative_pooled_prompt_embeds"}) {
    const auto expect = [&](const std::optional<Tensor>& value,
                            const std::string& says) {
      expect_refused(
          sample({"--prompt-embeds", changed_embeds(folder, name, value)},
                 kStableDiffusionXl),
          2, std::string("e.safetensors] ") + name + ": " + says);
    };
    expect(std::nullopt, "missing");
    expect(Tensor::zeros({1, 10}, DType::f32), "got shape [10]");
    expect(Tensor::zeros({1, 40}, DType::i64), "got ");
  }
}

TEST(Prompts, ThatAreNotUtf8NameTheirOptionOrLine) {
  const char* const bad = "a\xFFz";
  const char* const says = "] not UTF-8: got byte 255 at offset 1";
  for (const std::string key :
       {"prompt", "prompt-2", "negative-prompt", "negative-prompt-2"}) {
    Arguments job = {"--prompt", "a fox", "--negative-prompt", "rain"};
    if (key.ends_with("-2")) {
      job = joined(job, {"--" + key, bad});
    } else {
      job[key == "prompt" ? 1 : 3] = bad;
    }
    expect_refused(sample(job, kStableDiffusionXl), 2, "[--" + key + says);
  }
  const TempFolder folder;
  const std::string file =
      folder.write("p.txt", std::string("a fox\n\n") + bad + "\n");
  for (const char* model : {kPixArt, kStableDiffusion}) {
    expect_refused(sample({"--prompt-file", file}, model), 2,
                   "p.txt:3" + std::string(says));
  }
  expect_refused(
      sample({"--prompt-file",
              folder.write("long.txt", "a fox\n" + std::string(70'000, 'x'))}),
      2, "long.txt:2] a prompt is too long");
}

/// The file with its masks, which are I64, as narrower numbers.
std::string with_masks(const std::string& path, const std::string& dtype,
                       std::size_t width) {
  const models::SafetensorsFile file(path);
  nlohmann::json header;
  std::string data;
  for (const auto& entry : file.header().entries) {
    const std::vector<std::byte> bytes = file.stored_bytes(entry);
    const bool is_mask = entry.name.ends_with("mask");
    const std::size_t from = data.size();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (!is_mask || i % sizeof(std::int64_t) < width) {
        data += static_cast<char>(bytes[i]);
      }
    }
    std::vector<std::int64_t> shape(entry.shape.extents().begin(),
                                    entry.shape.extents().end());
    header[std::string(entry.name)] = {
        {"dtype", is_mask ? dtype : std::string(to_string(entry.dtype))},
        {"shape", shape},
        {"data_offsets", {from, data.size()}}};
  }
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  std::string bytes(sizeof size, 0);
  std::memcpy(bytes.data(), &size, sizeof size);
  return bytes + text + data;
}

TEST(PromptEmbeds, MayHaveMasksOfAnyWholeNumbers) {
  const TempFolder folder;
  const std::string made = folder.path("made.safetensors");
  const Outcome encoded = run(joined({"encode", "--random-weights", kPixArt,
                                      "--negative-prompt", "rain", "-o", made},
                                     kFox));
  ASSERT_EQ(encoded.exit_code, 0) << encoded.err;
  const nlohmann::json want = done({"--prompt-embeds", made});
  struct Case {
    const char* dtype;
    std::size_t width;
  };
  for (const Case& c : {Case{"I32", 4},
                        {"U32", 4},
                        {"I16", 2},
                        {"U16", 2},
                        {"I8", 1},
                        {"U8", 1},
                        {"BOOL", 1},
                        {"U64", 8}}) {
    const std::string path =
        folder.write("narrow.safetensors", with_masks(made, c.dtype, c.width));
    EXPECT_EQ(done({"--prompt-embeds", path})["latents_xxh3"],
              want["latents_xxh3"])
        << c.dtype;
  }
}

/// As diffusers has it; its PixArt tells by masks what counts.
TEST(PromptEmbeds, OfBothBranchesHaveOneLength) {
  const TempFolder folder;
  const std::string longer =
      changed_embeds(folder, "negative_prompt_embeds",
                     Tensor::zeros({1, 154, 80}, DType::f32));
  const Outcome outcome =
      sample({"--prompt-embeds", longer}, kStableDiffusionXl);
  expect_refused(outcome, 2, "got [77, 80] and [154, 80]");
  (void)done({"--prompt-embeds", longer, "--guidance", "1"},
             kStableDiffusionXl);
  const std::string masked = folder.path("masked.safetensors");
  const Outcome encoded =
      run(joined({"encode", "--random-weights", kPixArt, "--negative-prompt",
                  "rain", "-o", masked},
                 kFox));
  ASSERT_EQ(encoded.exit_code, 0) << encoded.err;
  (void)done({"--prompt-embeds", masked});
}

}  // namespace
}  // namespace troupe::test

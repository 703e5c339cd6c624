// What text encoders read of a prompt, and which of their layers is taken.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "models/files/safetensors.h"
#include "tests/cli/prompt_runs.h"

namespace troupe::test {
namespace {

constexpr const char* kTokenizerConfig = "tokenizer/tokenizer_config.json";
constexpr const char* kEncoderConfig = "text_encoder/config.json";
constexpr const char* kEncoderWeights = "text_encoder/model.safetensors";

/// What `encode` makes of a prompt: the rows of its first text.
Tensor embeds_of(const ChangedPipeline& pipeline, const Arguments& more) {
  const Outcome outcome =
      pipeline.run_verb("encode", joined({"--exists", "replace"}, more));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const models::SafetensorsFile file(pipeline.path("out.safetensors"));
  return file.read(*file.find("prompt_embeds")).item(0);
}

bool rows_equal(const Tensor& a, const Tensor& b, std::int64_t rows) {
  return std::ranges::equal(a.slice(0, rows).bytes(), b.slice(0, rows).bytes());
}

/// The same but for rounding: with AVX2 alone, fewer rows or keys in a product
/// may be added in another order.
bool rows_close(const Tensor& a, const Tensor& b, std::int64_t rows) {
  const Tensor left = a.slice(0, rows);
  const Tensor right = b.slice(0, rows);
  const std::span values(left.data<float>(),
                         static_cast<std::size_t>(left.num_elements()));
  return std::ranges::equal(
      values, std::span(right.data<float>(), values.size()),
      [](float x, float y) { return std::abs(x - y) < 1e-5F; });
}

/// The weights of the text encoder with some tensors changed by fn.
template <typename Fn>
void change_weights(const ChangedPipeline& pipeline, const Fn& fn) {
  const std::string path = pipeline.part(kEncoderWeights).string();
  std::vector<NamedTensor> tensors;
  {
    const models::SafetensorsFile file(path);
    for (const auto& entry : file.header().entries) {
      tensors.push_back({std::string(entry.name), file.read(entry)});
    }
  }
  std::ranges::for_each(tensors, fn);
  models::write_safetensors(path, tensors);
}

/// A tensor with more rows; the first ones again.
Tensor with_rows_again(const Tensor& tensor, std::int64_t rows) {
  Tensor longer(Shape{rows, tensor.dim(1)}, tensor.dtype());
  for (std::int64_t i = 0; i < rows; ++i) {
    std::ranges::copy(tensor.item(i % tensor.dim(0)).bytes(),
                      longer.item(i).bytes().begin());
  }
  return longer;
}

// Tokens see none behind them, so a shorter text's rows are the first of a
// longer one's.
TEST(PromptLength, IsThatOfTheTokenizer) {
  const ChangedPipeline pipeline("pipeline_sd15");
  const Arguments fox = {"--prompt", "a red fox"};
  const Tensor usual = embeds_of(pipeline, fox);
  EXPECT_EQ(usual.dim(0), 77);
  pipeline.change(kTokenizerConfig, "\"model_max_length\": 77",
                  "\"model_max_length\": 20");
  const Tensor shorter = embeds_of(pipeline, fox);
  ASSERT_EQ(shorter.dim(0), 20);
  EXPECT_TRUE(rows_close(shorter, usual, 20));
  const std::string words =
      "a red fox and a dog and a cat and a horse and a bird and a fish and a "
      "house and a tree";
  EXPECT_NE(
      pipeline.run_verb("encode", {"--exists", "replace", "--prompt", words})
          .err.find("longer than the model takes"),
      std::string::npos);
  const Outcome shown = run({"inspect", pipeline.part("").string(), "--json"});
  EXPECT_EQ(shown.json()["items"][0]["text_encoders"][0]["tokenizer"]
                        ["longest_prompt"],
            20);
}

TEST(PromptLength, GrowsWithTheEncodersPositions) {
  const ChangedPipeline pipeline("pipeline_sd15");
  pipeline.change(kTokenizerConfig, "\"model_max_length\": 77",
                  "\"model_max_length\": 248");
  for (const char* verb : {"encode", "sample"}) {
    const Outcome refused = pipeline.run_verb(verb);
    expect_refused(refused, 6,
                   "model_max_length: got 248, expected 2 to 77, the positions "
                   "of text_encoder");
    EXPECT_EQ(refused.err_lines(), 1) << refused.err;
  }
  pipeline.change(kEncoderConfig, "\"max_position_embeddings\": 77",
                  "\"max_position_embeddings\": 248");
  change_weights(pipeline, [](NamedTensor& named) {
    if (named.name.ends_with("position_embedding.weight")) {
      named.tensor = with_rows_again(named.tensor, 248);
    }
  });
  std::string words;
  while (words.size() < 200) {
    words += "cat ";
  }
  const Outcome outcome = pipeline.run_verb("encode", {"--prompt", words});
  EXPECT_EQ(outcome.err.find("left out"), std::string::npos) << outcome.err;
  EXPECT_EQ(embeds_of(pipeline, {"--prompt", words}).dim(0), 248);
}

TEST(PromptLength, HasRoomForTheMarks) {
  const ChangedPipeline pipeline("pipeline_sd15");
  pipeline.change(kTokenizerConfig, "\"model_max_length\": 77",
                  "\"model_max_length\": 1");
  expect_refused(pipeline.run_verb("encode"), 6,
                 "model_max_length: got 1, expected 2 to 77");
}

TEST(PromptLength, IsOneForBothEncoders) {
  const ChangedPipeline pipeline("pipeline_sdxl");
  pipeline.change(kTokenizerConfig, "\"model_max_length\": 77",
                  "\"model_max_length\": 64");
  expect_refused(pipeline.run_verb("encode"), 6,
                 "at different lengths: got 77, expected 64 as tokenizer");
  pipeline.change("tokenizer_2/tokenizer_config.json",
                  "\"model_max_length\": 77", "\"model_max_length\": 64");
  EXPECT_EQ(embeds_of(pipeline, {}).dim(0), 64);
}

// The reference is transformers' arithmetic in f64.
TEST(AttentionMask, HidesPaddingWhereTheEncoderSaysSo) {
  const ChangedPipeline pipeline("pipeline_sd15");
  const Arguments fox = {"--prompt", "a red fox", "--cache",
                         pipeline.path("cache")};
  const Tensor plain = embeds_of(pipeline, fox);
  pipeline.change(kEncoderConfig, "{", "{\"use_attention_mask\": true,");
  const Tensor masked = embeds_of(pipeline, fox);
  EXPECT_EQ(masked.shape(), plain.shape());
  EXPECT_TRUE(rows_close(masked, plain, 8));
  const float last[] = {-1.22077535F, -0.74152235F, 0.12272737F, 0.61783926F};
  for (std::size_t i = 0; i < std::size(last); ++i) {
    EXPECT_NEAR(masked.item(76).data<float>()[i], last[i], 1e-4) << i;
  }
  const Tensor again = embeds_of(pipeline, fox);
  EXPECT_TRUE(rows_equal(again, masked, 77));
  EXPECT_FALSE(rows_close(masked, plain, 9));
}

/// Stable Diffusion XL gives its encoders no mask, whatever they say.
TEST(AttentionMask, IsNotThatOfStableDiffusionXl) {
  const ChangedPipeline pipeline("pipeline_sdxl");
  const Tensor plain = embeds_of(pipeline, {});
  pipeline.change(kEncoderConfig, "{", "{\"use_attention_mask\": true,");
  EXPECT_TRUE(rows_equal(embeds_of(pipeline, {}), plain, 77));
}

/// A pipeline whose encoder has a row for each of three more tokens.
void add_words(const ChangedPipeline& pipeline, const std::string& words) {
  pipeline.change(kEncoderConfig, "\"vocab_size\": 714", "\"vocab_size\": 717");
  change_weights(pipeline, [](NamedTensor& named) {
    if (named.name.ends_with("token_embedding.weight")) {
      named.tensor = with_rows_again(named.tensor, 717);
    }
  });
  if (!words.empty()) {
    pipeline.replace("tokenizer/added_tokens.json", words);
  }
}

/// In the reference pipeline each of the rows is a word of one vector.
TEST(TrainedWord, OfSeveralVectorsIsReadAsAllOfThem) {
  const ChangedPipeline pipeline("pipeline_sd15");
  add_words(pipeline, R"({"<toy>": 714, "<toy>_1": 715, "<toy>_2": 716})");
  const ChangedPipeline single("pipeline_sd15");
  add_words(single, R"({"<toy>": 714, "<b>": 715, "<c>": 716})");
  EXPECT_TRUE(rows_equal(embeds_of(pipeline, {"--prompt", "a <toy> fox"}),
                         embeds_of(single, {"--prompt", "a <toy> <b> <c> fox"}),
                         77));
  const auto latents = [](const ChangedPipeline& of, const char* negative) {
    const Outcome outcome = of.run_verb(
        "sample", {"--json", "--steps", "1", "--exists", "replace", "--out",
                   of.path("a.png"), "--negative-prompt", negative});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json()["latents_xxh3"];
  };
  EXPECT_EQ(latents(pipeline, "<toy>"), latents(single, "<toy> <b> <c>"));
  EXPECT_NE(latents(pipeline, "<toy>"), latents(single, "<toy>"));
}

TEST(TrainedWord, WhoseIdIsMissingIsNoted) {
  const ChangedPipeline pipeline("pipeline_sd15");
  add_words(pipeline, "");
  const Outcome outcome = pipeline.run_verb("encode");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("it has 714 ids, and text_encoder 717 rows"),
            std::string::npos)
      << outcome.err;
}

/// Stable Diffusion XL has two encoders, each of which may read its own text.
TEST(SecondPrompt, IsReadByTheSecondEncoder) {
  const auto latents = [](const Arguments& more) {
    return done(joined(kFox, more), kStableDiffusionXl)["latents_xxh3"];
  };
  const auto fox = latents({});
  EXPECT_EQ(latents({"--prompt-2", kFox[1]}), fox);
  EXPECT_NE(latents({"--prompt-2", "a hen"}), fox);
  EXPECT_NE(done({"--prompt", "a hen", "--prompt-2", kFox[1]},
                 kStableDiffusionXl)["latents_xxh3"],
            fox);
}

/// Each image has the bytes of a run with its two texts alone.
TEST(NegativePrompts, AreOneForEachPrompt) {
  const TempFolder folder;
  const Arguments both = {"-p",
                          "a fox",
                          "-p",
                          "a hen",
                          "--negative-prompt",
                          "rain",
                          "--negative-prompt",
                          "",
                          "-n",
                          "2",
                          "-o",
                          folder.path("{index}.png")};
  const auto hashes = [](const nlohmann::json& run) {
    std::vector<std::string> all;
    for (const nlohmann::json& image : run["images"]) {
      all.push_back(image["latents_xxh3"]);
    }
    return all;
  };
  const std::vector<std::string> drawn = hashes(done(both));
  ASSERT_EQ(drawn.size(), 4U);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const bool is_fox = i % 2 == 0;
    const auto range = std::to_string(i) + ":" + std::to_string(i + 1);
    EXPECT_EQ(
        hashes(done({"-p", is_fox ? "a fox" : "a hen", "--negative-prompt",
                     is_fox ? "rain" : "", "-n", range}))
            .front(),
        drawn[i])
        << i;
    const nlohmann::json again =
        run({"sample", "--from", folder.path(std::to_string(i) + ".png"),
             "--json"})
            .json();
    EXPECT_EQ(again["latents_xxh3"], drawn[i]);
  }
  // A file's blank line is the empty text.
  EXPECT_EQ(
      hashes(done({"--prompt-file", folder.write("p.txt", "a fox\n\na hen\n"),
                   "--negative-prompt-file", folder.write("n.txt", "rain\n\n"),
                   "-n", "2"})),
      drawn);
}

TEST(NegativePrompts, AreRefusedIfTheyAreNotOneForEach) {
  const TempFolder folder;
  const Arguments three = {"-p", "a", "-p", "b", "-p", "c"};
  expect_refused(sample(joined(three, {"--negative-prompt", "x",
                                       "--negative-prompt", "y"})),
                 2, "[--negative-prompt] got 2 negative prompts beside 3");
  const std::string file = folder.write("n.txt", "a\nb\nc\nd");
  expect_refused(sample(joined(three, {"--negative-prompt-file", file})), 2,
                 "[--negative-prompt-file] got 4 negative prompts beside 3");
  expect_refused(sample(joined(three, {"--negative-prompt-file", file,
                                       "--negative-prompt", "x"})),
                 2, "cannot stand beside --negative-prompt-file");
  expect_refused(sample(joined(kFox, {"--negative-prompt-file",
                                      folder.write("bad.txt", "a\n\xFF\n")})),
                 2, "bad.txt:2] not UTF-8");
  expect_refused(run(tiny_sample({"--negative-prompt-file", file})), 2,
                 "takes classes and no prompts");
}

/// Exact methods have the bytes of the sequential run, with everything that
/// joins or tells apart the branches.
TEST(Guidance, GivesEveryExactMethodTheSameBytes) {
  const Arguments job = {"-p",
                         "a fox",
                         "-p",
                         "a hen",
                         "--negative-prompt",
                         "rain",
                         "--negative-prompt",
                         "fog",
                         "--guidance-rescale",
                         "0.7",
                         "--steps",
                         "2"};
  const auto latents = [&](const Arguments& more) {
    return done(joined(job, more), kStableDiffusion)["latents_xxh3"];
  };
  const auto want = latents({"--method", "sequential"});
  EXPECT_NE(want,
            latents({"--method", "sequential", "--guidance-rescale", "0"}));
  for (const Arguments& method :
       {Arguments{"--method", "batch"}, Arguments{"--method", "cfg"},
        Arguments{"--method", "pipeline", "--segments", "2"},
        Arguments{"--method", "stale", "--segments", "2", "--age", "0"},
        Arguments{"--method", "picard", "--tolerance", "0"}}) {
    EXPECT_EQ(latents(joined(method, {"--workers", "2"})), want) << method[1];
  }
}

/// The four levels are 4.12, 1.62, 0.70 and 0.04.
TEST(GuidanceInterval, GuidesTheStepsBetweenItsNoiseLevels) {
  const Arguments job = joined(kFox, {"--steps", "4", "--sampler", "euler"});
  const auto latents = [&](const Arguments& more) {
    return done(joined(job, more), kStableDiffusion)["latents_xxh3"];
  };
  const auto all = latents({});
  const auto none = latents({"--guidance", "1"});
  EXPECT_EQ(latents({"--guidance-interval", "0:1000"}), all);
  EXPECT_EQ(latents({"--guidance-interval", ":"}), all);
  EXPECT_EQ(latents({"--guidance-interval", "999:1000"}), none);
  const auto some = latents({"--guidance-interval", ":2"});
  EXPECT_NE(some, all);
  EXPECT_NE(some, none);
  for (const Arguments& method :
       {Arguments{"--method", "batch"}, Arguments{"--method", "cfg"},
        Arguments{"--method", "pipeline", "--segments", "2"},
        Arguments{"--method", "stale", "--segments", "2", "--age", "0"},
        Arguments{"--method", "picard", "--tolerance", "0"}}) {
    EXPECT_EQ(latents(joined(method,
                             {"--workers", "2", "--guidance-interval", ":2"})),
              some)
        << method[1];
  }
}

TEST(GuidanceInterval, StandsInTheRecipeAndCostsHalfOfTheOtherSteps) {
  const TempFolder folder;
  const std::string image = folder.path("a.png");
  const Arguments job =
      joined(kFox, {"--sampler", "euler", "--guidance-interval", "0.5:2"});
  const auto made = done(joined(job, {"-o", image}), kStableDiffusion);
  const auto recipe =
      done({"--from", image, "-o", folder.path("b.png")}, kStableDiffusion);
  EXPECT_EQ(recipe["latents_xxh3"], made["latents_xxh3"]);
  const Outcome shown = run({"inspect", image, "--json"});
  EXPECT_EQ(shown.json()["items"][0]["recipe"]["guidance_interval"], "0.5:2");
  const auto rows = [&](const Arguments& more) {
    const Outcome plan =
        sample(joined(joined(kFox, {"--steps", "4", "--sampler", "euler",
                                    "--method", "sequential", "--dry-run"}),
                      more),
               kStableDiffusion);
    return plan.json()["plan"]["forward_rows"].get<double>();
  };
  EXPECT_EQ(rows({}), 8);
  EXPECT_EQ(rows({"--guidance-interval", "0.5:2"}), 6);
  EXPECT_EQ(rows({"--guidance-interval", "999:1000"}), 4);
}

TEST(GuidanceInterval, SaysWhereItChangesNothing) {
  const auto said = [](const char* interval) {
    return sample(joined(kFox, {"--sampler", "euler", "--guidance-interval",
                                interval}),
                  kStableDiffusion)
        .err;
  };
  const std::string levels =
      ": the noise levels of the steps go from 4.12 to 0.0413\n";
  EXPECT_NE(said("5:9").find("--guidance-interval leaves no step that is "
                             "guided" +
                             levels),
            std::string::npos)
      << said("5:9");
  EXPECT_NE(
      said("0.01:9").find("--guidance-interval leaves out no step" + levels),
      std::string::npos)
      << said("0.01:9");
  EXPECT_EQ(said("0.5:9").find("--guidance-interval"), std::string::npos);
}

TEST(GuidanceInterval, RefusesWhatIsNone) {
  for (const char* bad : {"5", "5:1", "a:b", "-1:2", "2:2"}) {
    expect_refused(sample(joined(kFox, {"--guidance-interval", bad})), 2,
                   "--guidance-interval");
  }
  const Outcome outcome =
      sample(joined(kFox, {"--guidance", "1", "--guidance-interval", "1:2"}));
  EXPECT_NE(
      outcome.err.find("--guidance-interval does nothing without guidance"),
      std::string::npos)
      << outcome.err;
}

TEST(GuidanceRescale, IsOffWithoutGuidanceAndSaysSo) {
  const Outcome outcome =
      sample(joined(kFox, {"--guidance", "1", "--guidance-rescale", "0.5"}));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(
      outcome.err.find("--guidance-rescale does nothing without guidance"),
      std::string::npos)
      << outcome.err;
  EXPECT_EQ(outcome.json()["latents_xxh3"],
            done(joined(kFox, {"--guidance", "1"}))["latents_xxh3"]);
  expect_refused(sample(joined(kFox, {"--guidance-rescale", "1.5"})), 2,
                 "--guidance-rescale");
}

/// What only some models are told.
TEST(PromptOptions, AreRefusedWhereNobodyReadsThem) {
  const TempFolder folder;
  for (const Arguments& told :
       {Arguments{"--original-size", "64x64"}, Arguments{"--crop", "0,8"},
        Arguments{"--target-size", "64x64"},
        Arguments{"--negative-crop", "0,8"}}) {
    for (const char* model : {kStableDiffusion, kPixArt}) {
      expect_refused(sample(joined(kFox, told), model), 2,
                     "[" + told[0] + "] the model is not told this");
    }
    expect_refused(run(tiny_sample(told)), 2,
                   "[" + told[0] + "] the model is not told this");
  }
  expect_refused(
      sample(joined(kFox, {"--negative-crop", "0,8"}), kStableDiffusionXl), 2,
      "give --negative-original-size and --negative-target-size, too");
  expect_refused(sample(joined(kFox, {"--crop", "8"}), kStableDiffusionXl), 2,
                 "expected TOP,LEFT");
  expect_refused(
      sample(joined(kFox, {"--aesthetic-score", "7"}), kStableDiffusionXl), 2,
      "[--aesthetic-score] the model is not told this");
  for (const char* model : {kStableDiffusion, kStableDiffusionXl}) {
    expect_refused(
        sample(joined(kFox, {"--max-sequence-length", "20"}), model), 2,
        "[--max-sequence-length] the pipeline always takes as many tokens");
  }
  expect_refused(run(tiny_sample({"--max-sequence-length", "20"})), 2,
                 "takes classes and no prompts");
}

/// Without prompts, too: random numbers stand in their place.
TEST(PromptOptions, ChangeWhatStableDiffusionXlIsTold) {
  const auto latents = [](const Arguments& more) {
    return done(more, kStableDiffusionXl)["latents_xxh3"];
  };
  const auto plain = latents({});
  const auto cropped = latents({"--crop", "0,8"});
  EXPECT_NE(cropped, plain);
  EXPECT_EQ(latents({"--crop", "0,0"}), plain);
  EXPECT_NE(latents({"--original-size", "8x8"}), plain);
  EXPECT_NE(latents({"--target-size", "8x8"}), cropped);
  // Random numbers are told eight pixels for each of the 16 latents.
  EXPECT_EQ(latents({"--original-size", "128x128", "--target-size", "128x128"}),
            plain);
}

TEST(DenoisingStart, NeedsTheLatentsOfAnotherRun) {
  expect_refused(sample(joined(kFox, {"--denoising-start", "0.5"})), 2,
                 "[--denoising-start] there are no latents to go on with");
  expect_refused(sample(joined(kFox, {"--denoising-end", "0.0001"})), 2,
                 "none of the 4 steps lies in this part");
}

/// A run that is cut in two has the bytes of the whole, where the solver
/// remembers nothing; with workers, too.
TEST(DenoisingStart, GoesOnWhereTheOtherRunEnded) {
  const TempFolder folder;
  const std::string file = folder.path("half.safetensors");
  const Arguments job = joined(kFox, {"--sampler", "euler", "--steps", "6"});
  const auto whole = done(job)["latents_xxh3"];
  const nlohmann::json first = done(
      joined(job, {"--denoising-end", "0.5", "--save", "latents=" + file}));
  EXPECT_EQ(first["nfe"], 3);
  for (const char* method : {"sequential", "cfg"}) {
    const nlohmann::json second =
        done(joined(job, {"--denoising-start", "0.5", "--init-latents", file,
                          "--method", method, "--workers", "2"}));
    EXPECT_EQ(second["latents_xxh3"], whole);
  }
}

TEST(SecondPrompt, StandsInTheRecipe) {
  const TempFolder folder;
  const std::string picture = folder.path("fox.png");
  (void)done(joined(kFox, {"--prompt-2", "oil on \"canvas\"", "-o", picture}),
             kStableDiffusionXl);
  const Outcome shown = run({"inspect", picture, "--json"});
  EXPECT_EQ(shown.json()["items"][0]["recipe"]["prompt_2"],
            "oil on \"canvas\"");
  const Outcome again =
      run({"sample", "--from", picture, "-o", folder.path("again.png")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(folder.read("again.png"), folder.read("fox.png"));
  // A new prompt also replaces the second text.
  const auto hen =
      run({"sample", "--from", picture, "-p", "a hen", "--json"}).json();
  EXPECT_EQ(hen["latents_xxh3"],
            done({"-p", "a hen"}, kStableDiffusionXl)["latents_xxh3"]);
}

TEST(SecondPrompt, IsRefusedWhereNobodyReadsIt) {
  expect_refused(sample(joined(kFox, {"--prompt-2", "x"}), kStableDiffusion), 2,
                 "one text for a prompt");
  expect_refused(sample({"--prompt-2", "x"}, kStableDiffusionXl), 2,
                 "--prompt-2");
  expect_refused(run(tiny_sample({"--prompt-2", "x"})), 2,
                 "takes classes and no prompts");
}

TEST(SecondNegativePrompt, IsReadByTheSecondEncoder) {
  const auto latents = [](const Arguments& more) {
    return done(joined(kFox, more), kStableDiffusionXl)["latents_xxh3"];
  };
  const auto rain = latents({"--negative-prompt", "rain"});
  EXPECT_EQ(
      latents({"--negative-prompt", "rain", "--negative-prompt-2", "rain"}),
      rain);
  EXPECT_NE(
      latents({"--negative-prompt", "rain", "--negative-prompt-2", "a hen"}),
      rain);
  expect_refused(
      sample(joined(kFox, {"--negative-prompt-2", "x"}), kStableDiffusionXl), 2,
      "give --negative-prompt, too");
  expect_refused(sample(joined(kFox, {"--negative-prompt", "x",
                                      "--negative-prompt-2", "y"}),
                        kStableDiffusion),
                 2, "one text for a prompt");
  expect_refused(run(tiny_sample({"--negative-prompt-2", "x"})), 2,
                 "takes classes and no prompts");
}

TEST(ClipSkip, TakesAnEarlierLayer) {
  for (const char* const model : {kStableDiffusion, kStableDiffusionXl}) {
    const auto latents = [&](const Arguments& more) {
      return done(joined(kFox, more), model)["latents_xxh3"];
    };
    const auto last = latents({});
    EXPECT_EQ(latents({"--clip-skip", "0"}), last) << model;
    EXPECT_NE(latents({"--clip-skip", "1"}), last) << model;
  }
}

TEST(ClipSkip, IsRefusedWhereThereIsNoSuchLayer) {
  const auto refused = [](const char* layers, const char* model,
                          const char* says) {
    expect_refused(sample(joined(kFox, {"--clip-skip", layers}), model), 2,
                   says);
  };
  // Two layers each; Stable Diffusion XL leaves out the last one anyway.
  refused("3", kStableDiffusion, "expected at most 2");
  refused("2", kStableDiffusionXl, "expected at most 1");
  refused("1", kPixArt, "takes prompts from the last layer");
  refused("-1", kStableDiffusion, "--clip-skip");
  expect_refused(run(tiny_sample({"--clip-skip", "1"})), 2,
                 "takes classes and no prompts");
}

TEST(ClipSkip, StandsInTheRecipeBesideTheSecondNegativePrompt) {
  const TempFolder folder;
  const std::string picture = folder.path("fox.png");
  (void)done(joined(kFox, {"--clip-skip", "1", "--negative-prompt", "rain",
                           "--negative-prompt-2", "\"fog\"", "-o", picture}),
             kStableDiffusionXl);
  const auto recipe =
      run({"inspect", picture, "--json"}).json()["items"][0]["recipe"];
  EXPECT_EQ(recipe["clip_skip"], 1);
  EXPECT_EQ(recipe["negative_prompt_2"], "\"fog\"");
  const Outcome again =
      run({"sample", "--from", picture, "-o", folder.path("again.png")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(folder.read("again.png"), folder.read("fox.png"));
  // A new negative prompt also replaces the second negative text.
  const auto snow =
      run({"sample", "--from", picture, "--negative-prompt", "snow", "--json"})
          .json();
  EXPECT_EQ(
      snow["latents_xxh3"],
      done(joined(kFox, {"--clip-skip", "1", "--negative-prompt", "snow"}),
           kStableDiffusionXl)["latents_xxh3"]);
}

/// As in diffusers: zeros, where no negative prompt is given.
TEST(NegativePrompt, ThatIsMissingIsNoEmptyText) {
  const auto latents = [](const Arguments& more) {
    return done(joined(kFox, more), kStableDiffusionXl)["latents_xxh3"];
  };
  EXPECT_NE(latents({"--negative-prompt", ""}), latents({}));
}

/// The recipe says what guidance led away from, and the same command finds
/// pictures from before it did.
TEST(NegativePrompt, OfThePipelineStandsInTheRecipeIfItIsAText) {
  struct Case {
    Arguments more;
    const char* model;
    std::optional<std::string> expected;
  };
  for (const Case& c : {Case{{}, kStableDiffusion, ""},
                        Case{{}, kStableDiffusionXl, std::nullopt},
                        Case{{"--negative-prompt", ""}, kStableDiffusionXl, ""},
                        Case{{"--guidance", "1"}, kStableDiffusion, {}},
                        Case{{"--guidance", "1", "--negative-prompt", "x"},
                             kStableDiffusion,
                             {}}}) {
    const TempFolder folder;
    const std::string picture = folder.path("fox.png");
    (void)done(joined(joined(kFox, c.more), {"-o", picture}), c.model);
    const auto recipe =
        run({"inspect", picture, "--json"}).json()["items"][0]["recipe"];
    ASSERT_EQ(recipe.contains("negative_prompt"), c.expected.has_value());
    if (c.expected) {
      EXPECT_EQ(recipe["negative_prompt"], *c.expected);
    }
    (void)run({"sample", "--from", picture, "-o", folder.path("again.png")});
    EXPECT_EQ(folder.read("again.png"), folder.read("fox.png"));
  }
}

TEST(NegativePrompt, DoesNothingWithoutGuidance) {
  const TempFolder folder;
  const Arguments job =
      joined(kFox, {"--guidance", "1", "--negative-prompt", "rain",
                    "--negative-prompt-2", "fog", "-o", folder.path("a.png")});
  const Outcome outcome = sample(job, kStableDiffusionXl);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* key : {"--negative-prompt", "--negative-prompt-2"}) {
    EXPECT_NE(outcome.err.find(std::string(key) + " does nothing"),
              std::string::npos)
        << outcome.err;
  }
  EXPECT_EQ(outcome.json()["latents_xxh3"],
            done(joined(kFox, {"--guidance", "1"}),
                 kStableDiffusionXl)["latents_xxh3"]);
  // Nothing is said of one that is read, nor of no text.
  EXPECT_EQ(sample(joined(kFox, {"--negative-prompt", "rain"})).err, "");
  EXPECT_EQ(
      sample(joined(kFox, {"--guidance", "1", "--negative-prompt", ""})).err,
      "");
  // Older recipes hold it all the same.
  change_recipe(folder, "a.png", "/negative_prompt", "rain");
  change_recipe(folder, "a.png", "/negative_prompt_2", "fog");
  EXPECT_EQ(done(joined(job, {"--exists", "skip"}),
                 kStableDiffusionXl)["images"][0]["status"],
            "skipped");
}

TEST(NegativePrompt, AndSizeOfOlderRecipesAreTheModelsOwn) {
  const TempFolder folder;
  const Arguments out = {"-o", folder.path("fox.png")};
  (void)done(joined(kFox, out), kStableDiffusion);
  for (const char* key : {"/negative_prompt", "/width", "/height"}) {
    change_recipe(folder, "fox.png", key, nullptr);
  }
  const Arguments skip = joined(out, {"--exists", "skip"});
  EXPECT_EQ(done(joined(kFox, skip), kStableDiffusion)["images"][0]["status"],
            "skipped");
  EXPECT_EQ(sample(joined(joined(kFox, skip), {"--negative-prompt", "x"}),
                   kStableDiffusion)
                .exit_code,
            2);
}

}  // namespace
}  // namespace troupe::test

// What text encoders read of a prompt, and which of their layers is taken.

#include "tests/cli/prompt_runs.h"

namespace troupe::test {
namespace {

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

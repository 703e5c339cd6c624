#include <gtest/gtest.h>

#include <span>

#include "actors/artefacts/npz.h"
#include "actors/artefacts/png.h"
#include "tests/cli/npz_tensors.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

TEST(Seeds, OfTorchNoiseAreThoseOfEachImage) {
  const TempFolder folder;
  const std::vector<std::string> torch = {"--noise", "torch", "--class", "1",
                                          "--json"};
  const auto sample = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = torch;
    all = overridden(std::move(all), more);
    const Outcome outcome = run(tiny_sample(all));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json()["images"];
  };
  const auto two = sample({"--seed", "5", "-n", "2", "-o", folder.path()});
  const auto one = sample({"--seed", "6", "-o", folder.path("6.png")});
  EXPECT_EQ(two[1]["latents_xxh3"], one[0]["latents_xxh3"]);
  EXPECT_EQ(two[0]["seed"], 5);
  EXPECT_EQ(two[1]["seed"], 6);
  EXPECT_EQ(one[0]["seed"], 6);
  const auto skipped = sample(
      {"--seed", "5", "-n", "2", "-o", folder.path(), "--exists", "skip"});
  EXPECT_EQ(skipped[1]["status"], "skipped");
  EXPECT_EQ(skipped[1]["seed"], 6);
}

TEST(Recipes, AreDrawnAgainBesideTheirPicture) {
  const TempFolder folder;
  const std::string first = folder.path("a.png");
  ASSERT_EQ(run(tiny_sample({"--class", "1", "-o", first})).exit_code, 0);
  const Outcome dry = run({"sample", "--from", first, "--dry-run"});
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  const Outcome again = run({"sample", "--from", first, "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.json()["images"][0]["path"], folder.path("a-again.png"));
  EXPECT_EQ(folder.read("a-again.png"), folder.read("a.png"));
  // Nothing is written over.
  const Outcome third = run({"sample", "--from", first});
  EXPECT_EQ(third.exit_code, 2) << third.err;
  EXPECT_NE(third.err.find("a-again.png"), std::string::npos) << third.err;
  EXPECT_EQ(
      run({"sample", "--from", first, "-o", folder.path("b.png")}).exit_code,
      0);
  EXPECT_EQ(folder.names(),
            (std::vector<std::string>{"a-again.png", "a.png", "b.png"}));
  const Outcome two = run({"sample", "--from", first, "-n", "2"});
  EXPECT_EQ(two.exit_code, 0) << two.err;
  EXPECT_EQ(folder.read("a-again-0.png"), folder.read("a.png"));
  EXPECT_TRUE(std::filesystem::exists(folder.path("a-again-1.png")));
}

TEST(Seeds, BelowZeroAreTorchs) {
  const auto latents = [](const char* seed, const char* noise) {
    const TempFolder folder;
    const Outcome outcome =
        run(tiny_sample({"--seed", seed, "--noise", noise, "--json", "-o",
                         folder.path("a.png")}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json()["latents_xxh3"];
  };
  for (const char* noise : {"torch", "philox"}) {
    EXPECT_EQ(latents("-1", noise), latents("18446744073709551615", noise));
    EXPECT_NE(latents("-1", noise), latents("1", noise));
  }
}

TEST(Seeds, OfOurNoiseAreTheRunsOwn) {
  const TempFolder folder;
  const Outcome outcome = run(
      tiny_sample({"--seed", "5", "-n", "2", "-o", folder.path(), "--json"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["images"][1]["seed"], 5);
}

TEST(From, RepeatsAnyImageOfTorchNoise) {
  const TempFolder folder;
  ASSERT_EQ(run(tiny_sample({"--noise", "torch", "--seed", "5", "-n", "3",
                             "--sampler", "ddpm", "-o", folder.path("first")}))
                .exit_code,
            0);
  const Outcome again = run({"sample", "--from", folder.path("first/00002.png"),
                             "-o", folder.path("again.png"), "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(folder.read("again.png"), folder.read("first/00002.png"));
  EXPECT_EQ(again.json()["images"][0]["seed"], 7);
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The same picture with another recipe.
void write_with_recipe(const std::string& path, const TempFolder& folder,
                       const std::string& name, const nlohmann::json& recipe) {
  const std::string file = folder.read(path);
  actors::Image image =
      actors::decode_png(path, std::as_bytes(std::span(file)));
  image.recipe = recipe.dump();
  (void)folder.write(name, text_of(actors::encode_png(image)));
}

/// Given latents are not drawn: the first step's noise is what they would have
/// been.
TEST(InitLatents, LeaveTorchsFirstDrawToTheFirstStep) {
  const TempFolder folder;
  const auto sample = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--json"});
    const Outcome outcome = run(std::move(more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json();
  };
  const std::vector<std::string> torch = {"--noise", "torch",     "--seed",
                                          "5",       "--sampler", "ddpm"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), torch.begin(), torch.end());
    return tiny_sample(more);
  };
  const auto drawn =
      sample(with({"--save", "trajectory=" + folder.path("all.npz"), "-o",
                   folder.path("drawn.png")}));
  // The first point of the trajectory: what the generator drew.
  const std::string file = folder.read("all.npz");
  const auto all = decode_npz("all.npz", std::as_bytes(std::span(file)));
  const std::string latents = folder.write(
      "first.npy",
      text_of(actors::encode_npy(all.at(0).tensor.item(0).slice(0, 1))));
  const auto given =
      sample(with({"--init-latents", latents, "-o", folder.path("new.png")}));
  EXPECT_NE(given["latents_xxh3"], drawn["latents_xxh3"]);
  const auto recipe = run({"inspect", folder.path("new.png"), "--json"})
                          .json()["items"][0]["recipe"];
  EXPECT_EQ(recipe["init_latents_drawn"], false);
  const auto again =
      sample({"sample", "--from", folder.path("new.png"), "--init-latents",
              latents, "-o", folder.path("again.png")});
  EXPECT_EQ(again["latents_xxh3"], given["latents_xxh3"]);
  EXPECT_EQ(again["notes"].dump().find("older"), std::string::npos);
  // A recipe of before keeps the stream it was made with, and says so.
  auto old = recipe;
  old.erase("init_latents_drawn");
  write_with_recipe("new.png", folder, "old.png", old);
  const auto kept =
      sample({"sample", "--from", folder.path("old.png"), "--init-latents",
              latents, "-o", folder.path("kept.png")});
  EXPECT_EQ(kept["latents_xxh3"], drawn["latents_xxh3"]);
  EXPECT_NE(kept["notes"].dump().find("made by an older Troupe"),
            std::string::npos)
      << kept["notes"];
}

/// The schedule in an image's recipe.
nlohmann::json schedule_of(const std::string& image) {
  return run({"inspect", image, "--json"})
      .json()["items"][0]["recipe"]["schedule"];
}

TEST(From, KeepsTheRecipesScheduleUnderAnotherSampler) {
  const TempFolder folder;
  ASSERT_EQ(run(tiny_sample({"--steps", "3", "--beta-start", "0.0002",
                             "--timestep-spacing", "trailing", "--eta", "0.5",
                             "-o", folder.path("a.png")}))
                .exit_code,
            0);
  const Outcome other =
      run({"sample", "--from", folder.path("a.png"), "--sampler", "dpm++2m",
           "-o", folder.path("b.png"), "--json"});
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_EQ(other.json()["steps"], 3);
  EXPECT_EQ(other.json()["sampler"], "dpm++2m");
  const nlohmann::json schedule = schedule_of(folder.path("b.png"));
  EXPECT_EQ(schedule["beta_start"], 0.0002);
  EXPECT_EQ(schedule["timestep_spacing"], "trailing");
  EXPECT_EQ(schedule["clip_sample"], false) << "DDIM's own";
  const Outcome flags =
      run({"sample", "--from", folder.path("a.png"), "--sampler", "euler",
           "--steps", "2", "-o", folder.path("c.png"), "--json"});
  EXPECT_EQ(flags.json()["steps"], 2) << flags.err;
}

TEST(From, NamesTheFlagOfAnUnknownSampler) {
  const TempFolder folder;
  ASSERT_EQ(run(tiny_sample({"-o", folder.path("a.png")})).exit_code, 0);
  const Outcome outcome = run({"sample", "--from", folder.path("a.png"),
                               "--sampler", "eulr", "--dry-run"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(outcome.err.starts_with("troupe: [--sampler]")) << outcome.err;
}

}  // namespace
}  // namespace troupe::test

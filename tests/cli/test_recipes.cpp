#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

TEST(Seeds, OfTorchNoiseAreThoseOfEachImage) {
  const TempFolder folder;
  const std::vector<std::string> torch = {"--noise", "torch", "--class", "1",
                                          "--json"};
  const auto sample = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = torch;
    all.insert(all.end(), more.begin(), more.end());
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

// Pictures of a UNet whose latents have odd sides, at some level or from the
// start. Beside those of diffusers: scripts/parity_pipelines.sh.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/link_job.h"
#include "tests/cli/prompt_runs.h"

namespace troupe::test {
namespace {

/// 17 × 13 of the latents, and 9 × 7 inside.
const Arguments kOddSize = {"--size", "34x26"};
const Arguments kOddFox = joined(kFox, kOddSize);

Arguments in_parts(const char* method, const char* cut, int parts) {
  return {"--method",   method,
          "--cut",      cut,
          "--segments", std::to_string(parts),
          "--workers",  std::to_string(parts),
          "--threads",  "1"};
}

TEST(Sizes, OddOnesAreSampledByEveryMethodWithTheSameBytes) {
  const auto hash_of = [](const std::string& model, const Arguments& more) {
    return done(joined(joined(kOddFox, {"-n", "3", "--dtype", "f32"}), more),
                model)["latents_xxh3"];
  };
  for (const char* model : {kStableDiffusion, kStableDiffusionXl}) {
    const auto one =
        hash_of(model, {"--method", "sequential", "--workers", "1"});
    EXPECT_EQ(hash_of(model, {"--method", "batch", "--workers", "2"}), one);
    for (int parts = 2; parts <= 4; ++parts) {
      for (const char* cut : {"chain", "onion"}) {
        EXPECT_EQ(hash_of(model, in_parts("pipeline", cut, parts)), one)
            << model << ", " << cut << " of " << parts;
      }
      EXPECT_EQ(hash_of(model, joined(in_parts("stale", "onion", parts),
                                      {"--ages", "0"})),
                one);
    }
  }
}

TEST(Sizes, OddOnesGoToWorkersOfOtherProcesses) {
  for (const char* cut : {"chain", "onion"}) {
    LinkJob job(joined(
        joined({"--random-weights", kStableDiffusion, "-n", "3"}, kOddFox),
        {"--method", "pipeline", "--cut", cut, "--segments", "2", "--threads",
         "1"}));
    job.add_worker();
    job.add_worker({"--wait", "2"});
    EXPECT_EQ(job.finish()["latents_xxh3"], job.alone()["latents_xxh3"]) << cut;
  }
}

TEST(Sizes, OddOnesSendWhatWasForecast) {
  const auto job = [](const char* verb, const Arguments& more) {
    const Outcome outcome = run(joined(
        joined({verb, "--random-weights", kStableDiffusion, "--steps", "6",
                "--sampler", "ddim", "--method", "pipeline", "--cut", "onion",
                "--segments", "2", "-n", "3", "--json"},
               kOddFox),
        more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json();
  };
  const int per_call =
      job("sample", {"--dry-run"})["plan"]["crossing_bytes"].get<int>();
  EXPECT_EQ(
      job("bench", {"--emulate", "2"})["rows"].back()["bytes_sent"].get<int>(),
      3 * 6 * per_call);
}

TEST(Sizes, OddOnesAreThoseOfTheirPicturesAndRecipes) {
  const TempFolder folder;
  (void)done(joined(kOddFox, {"-o", folder.path("a.png")}), kStableDiffusion);
  const Outcome shown = run({"inspect", folder.path("a.png"), "--json"});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_EQ(shown.json()["items"][0]["width"], 34);
  EXPECT_EQ(shown.json()["items"][0]["height"], 26);
  const Outcome again = run(
      {"sample", "--from", folder.path("a.png"), "-o", folder.path("b.png")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(folder.read("b.png"), folder.read("a.png"));
  // A single latent.
  (void)done(joined(kFox, {"--size", "2x2", "-o", folder.path("c.png")}),
             kStableDiffusionXl);
}

/// What is refused names a size that is no multiple of 64 pixels.
TEST(Sizes, OfStableDiffusionAreMultiplesOf8Pixels) {
  struct Refusal {
    const char* size;
    const char* nearest;
  };
  for (const char* model : {"sd15", "sdxl"}) {
    for (const Refusal& row :
         {Refusal{"513x512", "512x512"}, Refusal{"500x301", "504x304"},
          Refusal{"76x99", "80x96"}, Refusal{"3x100", "8x104"}}) {
      const Outcome outcome =
          sample(joined(kFox, {"--size", row.size, "--dry-run"}), model);
      expect_refused(outcome, 2,
                     std::string("the nearest that works is ") + row.nearest);
      EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    }
  }
}

// A side that nobody gives is the model's: 32 pixels.
TEST(Sizes, MayBeGivenSideBySide) {
  const auto plan_of = [](std::vector<std::string> sides) {
    sides.insert(sides.begin(), {"sample", "--random-weights", "tiny-sd15",
                                 "-p", "a fox", "--dry-run"});
    const Outcome outcome = run(std::move(sides));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out.substr(0, outcome.out.find('\n'));
  };
  const std::string both = plan_of({"--size", "72x64"});
  EXPECT_NE(both.find("[4, 32, 36]"), std::string::npos) << both;
  EXPECT_EQ(plan_of({"-W", "72", "-H", "64"}), both);
  EXPECT_EQ(plan_of({"--width=72"}), plan_of({"--size", "72x32"}));
  const Outcome odd = run({"sample", "--random-weights", "tiny-sd15", "-p",
                           "a fox", "--width", "71", "--dry-run"});
  EXPECT_EQ(odd.exit_code, 2);
  EXPECT_NE(odd.err.find("[--width]"), std::string::npos) << odd.err;
  EXPECT_NE(odd.err.find("72x32"), std::string::npos) << odd.err;
}

}  // namespace
}  // namespace troupe::test

// Pictures that are decoded in tiles: --vae-tiling.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "actors/artefacts/png.h"
#include "tests/cli/link_job.h"

namespace troupe::test {
namespace {

using Arguments = std::vector<std::string>;

Arguments both(Arguments one, const Arguments& more) {
  one = overridden(std::move(one), more);
  return one;
}

/// A tile of this model's decoder has 16 latents, 32 pixels.
constexpr const char* kTilingModel = "dit-tiny-vae";
const Arguments kWholeJob = {"--class", "1", "--size", "80x80"};
const Arguments kTiledJob = {"--class", "1", "--size", "80x80", "--vae-tiling"};

/// A job in four steps.
Arguments four_steps(const Arguments& more) {
  return both({"sample", "--random-weights", kTilingModel, "--steps", "4",
               "--dtype", "f32"},
              more);
}

nlohmann::json made(const Arguments& arguments,
                    const Program::Environment& environment = {}) {
  const Outcome outcome = run(both(arguments, {"--json"}), environment);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.json();
}

nlohmann::json recipe_of_image(const TempFolder& folder,
                               const std::string& name) {
  return made({"inspect", folder.path(name)})["items"][0]["recipe"];
}

std::vector<std::uint8_t> rgb_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return actors::decode_png(path, std::as_bytes(std::span(bytes))).rgb;
}

TEST(Tiling, DrawsAnotherPictureOfTheSameLatentsAndSaysSo) {
  const TempFolder folder;
  const auto whole =
      made(both(four_steps(kWholeJob), {"-o", folder.path("whole.png")}));
  const auto tiled =
      made(both(four_steps(kTiledJob), {"-o", folder.path("tiled.png")}));
  EXPECT_EQ(tiled["latents_xxh3"], whole["latents_xxh3"]);
  EXPECT_EQ(tiled["execution_class"], whole["execution_class"]);
  EXPECT_NE(rgb_of(folder.path("tiled.png")), rgb_of(folder.path("whole.png")));
  EXPECT_EQ(recipe_of_image(folder, "tiled.png")["vae_tile"], 16);
  EXPECT_FALSE(recipe_of_image(folder, "whole.png").contains("vae_tile"));
  EXPECT_EQ(run({"verify", folder.path("tiled.png"), folder.path("whole.png")})
                .exit_code,
            0);
}

TEST(Tiling, ComesBackFromTheRecipeWhateverElseIsSaid) {
  const TempFolder folder;
  const Program::Environment on = {"TROUPE_VAE_TILING=true"};
  (void)made(both(four_steps(kWholeJob), {"-o", folder.path("tiled.png")}), on);
  (void)made(both(four_steps(kWholeJob), {"-o", folder.path("whole.png")}));
  EXPECT_EQ(recipe_of_image(folder, "tiled.png")["vae_tile"], 16);
  for (const std::string name : {"tiled", "whole"}) {
    (void)made({"sample", "--from", folder.path(name + ".png"), "-o",
                folder.path(name + "-again.png")},
               name == "whole" ? on : Program::Environment{});
    EXPECT_EQ(folder.read(name + "-again.png"), folder.read(name + ".png"));
  }
  (void)made({"sample", "--from", folder.path("whole.png"), "--vae-tiling",
              "-o", folder.path("changed.png")});
  EXPECT_EQ(folder.read("changed.png"), folder.read("tiled.png"));
  change_recipe(folder, "whole.png", "/vae_tile", 16);
  const Outcome outcome = run({"verify", folder.path("whole.png")});
  EXPECT_EQ(outcome.exit_code, 5) << outcome.out;
}

TEST(Tiling, LeavesPicturesThatAreNoLargerThanATile) {
  const TempFolder folder;
  const Arguments small = {"--class", "1", "--size", "32x32"};
  (void)made(both(four_steps(small), {"-o", folder.path("whole.png")}));
  const auto tiled = made(both(
      four_steps(small), {"--vae-tiling", "-o", folder.path("tiled.png")}));
  EXPECT_EQ(folder.read("tiled.png"), folder.read("whole.png"));
  EXPECT_EQ(tiled["notes"],
            (std::vector<std::string>{
                "--vae-tiling does nothing: the pictures are no larger than a "
                "tile, 32x32"}));
  const auto without = made(tiny_sample(
      {"--class", "1", "--vae-tiling", "-o", folder.path("a.png")}));
  EXPECT_EQ(without["notes"],
            (std::vector<std::string>{
                "--vae-tiling does nothing: the model has no autoencoder"}));
}

TEST(Tiling, IsAnotherJobThanTheWholeDecode) {
  const TempFolder folder;
  const auto into = [&](const Arguments& job) {
    return run(both(four_steps(job), {"-o", folder.path("out"), "-n", "2",
                                      "--exists", "skip", "--json"}));
  };
  ASSERT_EQ(into(kTiledJob).exit_code, 0);
  EXPECT_EQ(into(kTiledJob).json()["nfe"], 0) << "all is there";
  const Outcome outcome = into(kWholeJob);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_NE(outcome.err.find("vae_tile is 16 there and not given here"),
            std::string::npos)
      << outcome.err;
  const auto job = [&](const Arguments& which) {
    return made(both(four_steps(which), {"--print-job"}));
  };
  EXPECT_NE(job(kTiledJob)["job"], job(kWholeJob)["job"]);
  EXPECT_EQ(job(kTiledJob)["vae_tile"], 16);
  EXPECT_EQ(job(kWholeJob)["vae_tile"], 0);
}

/// Every picture of a job, by whomever it was decoded.
TEST(Tiling, GivesTheBytesOfOneWorkerToAll) {
  const TempFolder alone;
  const Arguments job = both(kTiledJob, {"-n", "3"});
  (void)made(both(four_steps(job),
                  {"-o", alone.path(), "--workers", "1", "--threads", "1"}));
  for (const Arguments& company :
       {Arguments{"--workers", "1", "--threads", "3"},
        Arguments{"--workers", "2", "--threads", "1", "--method", "batch"},
        Arguments{"--workers", "2", "--threads", "2", "--method", "pipeline",
                  "--segments", "2"}}) {
    const TempFolder folder;
    (void)made(both(four_steps(job), both(company, {"-o", folder.path()})));
    expect_files_of(alone, folder);
  }
}

TEST(Tiling, GivesTheSameBytesInOtherProcesses) {
  const TempFolder alone;
  const Arguments job = {"--random-weights",
                         kTilingModel,
                         "--class",
                         "1",
                         "--size",
                         "80x80",
                         "--vae-tiling",
                         "-n",
                         "3",
                         "--steps",
                         "4",
                         "--dtype",
                         "f32"};
  (void)made(both({"sample"}, both(job, {"-o", alone.path()})));
  const TempFolder folder;
  const std::string endpoint = "ipc://" + folder.path("link/a");
  Program head(
      both({"sample"}, both(job, {"--workers", "0", "--listen", endpoint, "-o",
                                  folder.path("out"), "--json"})));
  Program worker(
      {"worker", "--join", endpoint, "--threads", "1", "--wait", "20"},
      {"TMPDIR=" + folder.path()});
  const Outcome outcome = head.wait();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const std::string& name : alone.names()) {
    EXPECT_EQ(folder.read("out/" + name), alone.read(name)) << name;
  }
}

TEST(Tiling, ShowsTheFinishedPictureInItsPreview) {
  const TempFolder folder;
  (void)made(both(four_steps(kTiledJob),
                  {"-o", folder.path("a.png"), "--preview-every", "2",
                   "--preview", folder.path("p.png")}));
  EXPECT_EQ(rgb_of(folder.path("p.png")), rgb_of(folder.path("a.png")));
}

TEST(Tiling, IsForecastWithTheMemoryOfATile) {
  const auto plan = [&](const Arguments& job) {
    return made(both(four_steps(job), {"--workers", "1", "--dry-run"}))["plan"];
  };
  const Arguments large = {"--class", "1", "--size", "256x256"};
  const auto whole = plan(large)["memory_bytes"].get<double>();
  const auto tiled =
      plan(both(large, {"--vae-tiling"}))["memory_bytes"].get<double>();
  // 256 × 256 pixels of 32 channels in four buffers, but for the tile's.
  EXPECT_GT(whole - tiled, 0.9 * 256 * 256 * 32 * 4 * 4);
  const Outcome text =
      run(both(four_steps(large), {"--vae-tiling", "--dry-run"}));
  EXPECT_NE(text.out.find("decoded by a VAE in tiles of 32x32 pixels"),
            std::string::npos)
      << text.out;
}

}  // namespace
}  // namespace troupe::test

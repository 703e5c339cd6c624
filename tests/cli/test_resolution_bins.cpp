// Pictures of PixArt that are sampled at the nearest bin of its pipeline. Whole
// runs beside those of diffusers: test_pipeline_golden.cpp.

#include <gtest/gtest.h>

#include "actors/artefacts/png.h"
#include "tests/cli/link_job.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

using Arguments = std::vector<std::string>;

const std::string kModel = std::string(TROUPE_GOLDEN) + "/pipeline_pixart_bins";
constexpr const char* kNote = "nearest resolution bin";

/// The bin of 61x40 is 304x208.
Outcome sample_dog(const TempFolder& folder, const std::string& name,
                   const Arguments& more) {
  Arguments arguments = {"sample",     "-m",
                         kModel,       "-p",
                         "a dog",      "-s",
                         "3",          "--steps",
                         "2",          "--json",
                         "--progress", "none",
                         "-o",         folder.path(name)};
  arguments = overridden(std::move(arguments), more);
  return run(arguments);
}

nlohmann::json dog(const TempFolder& folder, const std::string& name,
                   const Arguments& more) {
  const Outcome outcome = sample_dog(folder, name, more);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.json();
}

nlohmann::json inspected(const std::string& path) {
  const Outcome outcome = run({"inspect", path, "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.json()["items"][0];
}

void expect_sides(const TempFolder& folder, const std::string& name, int width,
                  int height) {
  const nlohmann::json image = inspected(folder.path(name));
  EXPECT_EQ(image["width"], width) << name;
  EXPECT_EQ(image["height"], height) << name;
}

TEST(ResolutionBins, AreSampledAndCutToTheSizeThatWasAskedFor) {
  const TempFolder folder;
  const Outcome cut = sample_dog(folder, "cut.png", {"--size", "61x40"});
  ASSERT_EQ(cut.exit_code, 0) << cut.err;
  EXPECT_NE(cut.err.find("sampled at 304x208 pixels"), std::string::npos)
      << cut.err;
  EXPECT_NE(cut.err.find("cut to 61x40"), std::string::npos) << cut.err;
  expect_sides(folder, "cut.png", 61, 40);
  // The latents are those of the bin itself, and nothing is said of that.
  const Outcome bin = sample_dog(folder, "bin.png", {"--size", "304x208"});
  ASSERT_EQ(bin.exit_code, 0) << bin.err;
  EXPECT_EQ(bin.err, "");
  EXPECT_EQ(bin.json()["latents_xxh3"], cut.json()["latents_xxh3"]);
  expect_sides(folder, "bin.png", 304, 208);
}

TEST(ResolutionBins, CanBeLeftOut) {
  const TempFolder folder;
  const Outcome whole = sample_dog(folder, "whole.png",
                                   {"--size", "64x48", "--no-resolution-bins"});
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(whole.err, "");
  expect_sides(folder, "whole.png", 64, 48);
  EXPECT_NE(dog(folder, "cut.png", {"--size", "64x48"})["latents_xxh3"],
            whole.json()["latents_xxh3"]);
  const Outcome refused =
      sample_dog(folder, "a.png", {"--size", "61x40", "--no-resolution-bins"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("the nearest that works is 64x48"),
            std::string::npos)
      << refused.err;
}

/// Bins are those of an autoencoder of scale 8, so the trained size is a bin
/// with no other. Source: diffusers
/// pipelines/pixart_alpha/pipeline_pixart_sigma.py.
TEST(ResolutionBins, AreTakenWithoutASizeToo) {
  const TempFolder folder;
  namespace fs = std::filesystem;
  const std::string model = folder.path("model");
  fs::copy(kModel, model, fs::copy_options::recursive);
  fs::remove_all(model + "/vae");
  fs::copy(std::string(TROUPE_GOLDEN) + "/vae_default", model + "/vae");
  const Arguments fast = {"-m", model, "--steps", "1"};
  const Outcome cut = sample_dog(folder, "cut.png", fast);
  ASSERT_EQ(cut.exit_code, 0) << cut.err;
  EXPECT_NE(cut.err.find("sampled at 256x256 pixels"), std::string::npos)
      << cut.err;
  expect_sides(folder, "cut.png", 64, 64);
  Arguments whole = fast;
  whole.emplace_back("--no-resolution-bins");
  EXPECT_NE(dog(folder, "whole.png", whole)["latents_xxh3"],
            cut.json()["latents_xxh3"]);
  expect_sides(folder, "whole.png", 64, 64);
  const Outcome verified = run({"verify", folder.path("cut.png"), "-m", model});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
}

/// Files of bins and of the trained size are as before there were bins.
TEST(ResolutionBins, DoNotChangeThePicturesOfTheirOwnSizes) {
  const TempFolder folder;
  for (const Arguments& size :
       {Arguments{}, {"--size", "256x256"}, {"--size", "304x208"}}) {
    (void)dog(folder, "a.png", size);
    Arguments without = size;
    without.emplace_back("--no-resolution-bins");
    (void)dog(folder, "b.png", without);
    EXPECT_EQ(folder.read("a.png"), folder.read("b.png"));
    const nlohmann::json recipe = inspected(folder.path("a.png"))["recipe"];
    EXPECT_FALSE(recipe.contains("resolution_bins"));
    EXPECT_EQ(recipe["width"],
              size.empty() || size.back() == "256x256" ? 256 : 304);
    std::filesystem::remove(folder.path("a.png"));
    std::filesystem::remove(folder.path("b.png"));
  }
}

TEST(ResolutionBins, StandInTheRecipe) {
  const TempFolder folder;
  (void)dog(folder, "cut.png", {"--size", "61x40"});
  (void)dog(folder, "whole.png", {"--size", "64x48", "--no-resolution-bins"});
  EXPECT_EQ(inspected(folder.path("cut.png"))["recipe"]["resolution_bins"],
            true);
  for (const char* const name : {"cut.png", "whole.png"}) {
    const std::string again = std::string("again-") + name;
    const Outcome outcome = run({"sample", "-m", kModel, "--from",
                                 folder.path(name), "-o", folder.path(again)});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(folder.read(again), folder.read(name));
    const Outcome verified = run({"verify", folder.path(name), "-m", kModel});
    EXPECT_EQ(verified.exit_code, 0) << verified.err;
  }
  // The same command finds its picture; the bin's own size is another job.
  const auto skip = [&](const Arguments& size) {
    Arguments more = size;
    more.insert(more.end(), {"--exists", "skip"});
    return sample_dog(folder, "cut.png", more).exit_code;
  };
  EXPECT_EQ(skip({"--size", "61x40"}), 0);
  EXPECT_NE(skip({"--size", "304x208"}), 0);
}

TEST(ResolutionBins, ShowInPreviewsSheetsAndPlans) {
  const TempFolder folder;
  const Outcome outcome = sample_dog(
      folder, "{index}.png",
      {"--size", "61x40", "-n", "2", "--preview", folder.path("p-{index}.png"),
       "--preview-every", "1", "--grid", folder.path("sheet.png"), "--save",
       "latents=" + folder.path("l.npz")});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  expect_sides(folder, "p-1.png", 61, 40);
  const nlohmann::json sheet = inspected(folder.path("sheet.png"));
  EXPECT_LT(sheet["width"], 2 * 64 + 20);
  EXPECT_EQ(inspected(folder.path("l.npz"))["tensors"][0]["shape"],
            "[2, 4, 26, 38]");
  const auto pixels = [&](const std::string& name) {
    const std::string file = folder.read(name);
    return actors::decode_png(name, std::as_bytes(std::span(file))).rgb;
  };
  EXPECT_EQ(pixels("p-0.png"), pixels("0.png"));
  const Outcome plan = run(
      {"sample", "-m", kModel, "-p", "a dog", "--size", "61x40", "--dry-run"});
  EXPECT_NE(plan.out.find("61x40, sampled at the bin 304x208"),
            std::string::npos)
      << plan.out;
  EXPECT_EQ(inspected(kModel)["resolution_bins"], 33);
}

TEST(ResolutionBins, GiveTheSameFilesInSeveralProcesses) {
  LinkJob job({"-p", "a dog", "-n", "3", "--steps", "2", "--size", "61x40"},
              kModel);
  job.add_worker({"-m", kModel});
  job.add_worker({"-m", kModel});
  const nlohmann::json result = job.finish();
  const TempFolder folder;
  EXPECT_EQ(dog(folder, "",
                {"-s", "0", "--size", "61x40", "-n", "3", "--steps", "2",
                 "--threads", "1"})["latents_xxh3"],
            result["latents_xxh3"]);
  for (const char* const name : {"00000.png", "00001.png", "00002.png"}) {
    EXPECT_EQ(job.folder().read(std::string("out/") + name), folder.read(name))
        << name;
  }
}

/// A pipeline of another side, and one without bins.
TEST(ResolutionBins, AreOnlyWhereDiffusersHasThem) {
  const std::string other = std::string(TROUPE_GOLDEN) + "/pipeline_pixart";
  EXPECT_EQ(inspected(other)["resolution_bins"], 0);
  const TempFolder folder;
  const Outcome outcome =
      run({"sample", "-m", other, "-p", "a dog", "--steps", "1", "--size",
           "24x12", "-o", folder.path("a.png")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err.find(kNote), std::string::npos) << outcome.err;
  const Outcome refused = run({"sample", "-m", other, "-p", "a dog", "--steps",
                               "1", "--size", "25x12", "-o", "b.png"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.err_lines(), 1) << refused.err;
}

}  // namespace
}  // namespace troupe::test

#include <gtest/gtest.h>

#include <span>

#include "actors/artefacts/png.h"
#include "kernels/core/hash.h"
#include "tests/cli/npz_tensors.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

using Arguments = std::vector<std::string>;

std::span<const std::byte> as_bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// A run into `folder` with --exists skip.
Outcome skipping(const TempFolder& folder, Arguments more) {
  more.insert(more.end(),
              {"-o", folder.path("out"), "--exists", "skip", "--json"});
  return run(tiny_sample(std::move(more)));
}

std::string saved(const TempFolder& folder, const std::string& kind) {
  return kind + "=" + folder.path(kind + ".npz");
}

Tensor saved_tensor(const TempFolder& folder, const std::string& kind) {
  const std::string file = folder.read(kind + ".npz");
  return decode_npz(kind, as_bytes_of(file)).at(0).tensor;
}

TEST(Skipping, RefusesImagesOfAnotherJob) {
  const TempFolder folder;
  const Arguments first = {"-n", "1", "--class", "1", "--seed", "7"};
  ASSERT_EQ(skipping(folder, first).exit_code, 0);
  struct Other {
    Arguments arguments;
    const char* says;
  };
  for (const Other& other :
       {Other{{"--seed", "8"}, "seed is 7 there and 8 here"},
        Other{{"--guidance", "2"}, "guidance_scale is 4.0 there and 2.0 here"},
        Other{{"--steps", "5"},
              "schedule.num_inference_steps is 4 there and 5 here"},
        Other{{"--noise", "torch"}, "noise is \"philox\" there and \"torch\""},
        Other{{"--method", "picard", "--tolerance", "1"},
              "method.kind is \"sequential\" there and \"picard\" here"}}) {
    Arguments arguments = {"-n", "2", "--class", "1", "--seed", "7"};
    arguments = overridden(std::move(arguments), other.arguments);
    const Outcome outcome = skipping(folder, arguments);
    EXPECT_EQ(outcome.exit_code, 2) << other.says;
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    EXPECT_NE(outcome.err.find(other.says), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("00000.png"), std::string::npos) << outcome.err;
  }
  const Outcome turned = skipping(
      folder, {"-n", "2", "--class", "2", "--class", "1", "--seed", "7"});
  EXPECT_NE(turned.err.find("class_id is 1 there and 2 here"),
            std::string::npos)
      << turned.err;
  EXPECT_FALSE(std::filesystem::exists(folder.path("out/00001.png")));
  // Where and how it is computed does not matter.
  const Outcome same =
      skipping(folder, {"-n", "2", "--class", "1", "--seed", "7", "--method",
                        "pipeline", "--segments", "2"});
  EXPECT_EQ(same.exit_code, 0) << same.err;
}

TEST(Skipping, RefusesImagesOfOtherWeights) {
  const TempFolder folder;
  ASSERT_EQ(skipping(folder, {"-n", "1", "--class", "1"}).exit_code, 0);
  // The same recipe but for the weights' hash, which its user cannot see.
  const std::string file = folder.read("out/00000.png");
  actors::Image image = actors::decode_png("a", as_bytes_of(file));
  auto recipe = nlohmann::json::parse(image.recipe);
  recipe["weights_xxh3"] = "0123456789abcdef";
  image.recipe = recipe.dump();
  const std::vector<std::byte> changed = actors::encode_png(image);
  const auto* text = reinterpret_cast<const char*>(changed.data());
  (void)folder.write("out/00000.png", {text, text + changed.size()});
  const Outcome outcome = skipping(folder, {"-n", "2", "--class", "1"});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("weights have the hash 0123456789abcdef"),
            std::string::npos)
      << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(folder.path("out/00001.png")));
}

TEST(Skipping, KeepsTheRowsThatWereSaved) {
  const TempFolder folder;
  const TempFolder whole;
  const Arguments save = {"--save", saved(folder, "latents"), "--save",
                          saved(folder, "trajectory")};
  const auto with = [](Arguments arguments, const Arguments& more) {
    arguments = overridden(std::move(arguments), more);
    return arguments;
  };
  ASSERT_EQ(skipping(folder, with({"-n", "1:3"}, save)).exit_code, 0);
  const Outcome outcome = skipping(folder, with({"-n", "0:4"}, save));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["images"][1]["status"], "skipped");
  EXPECT_EQ(outcome.json()["images"][3]["status"], "done");
  ASSERT_EQ(skipping(whole, {"-n", "0:4", "--save", saved(whole, "latents"),
                             "--save", saved(whole, "trajectory")})
                .exit_code,
            0);
  EXPECT_EQ(folder.read("latents.npz"), whole.read("latents.npz"));
  EXPECT_EQ(folder.read("trajectory.npz"), whole.read("trajectory.npz"));
  const Tensor all = saved_tensor(folder, "latents");
  EXPECT_EQ(outcome.json()["latents_xxh3"],
            to_hex(xxh3_64(std::as_const(all).bytes())));
}

TEST(Skipping, MakesAgainWhatLacksItsRow) {
  const TempFolder folder;
  ASSERT_EQ(skipping(folder, {"-n", "2"}).exit_code, 0);
  const std::string image = folder.read("out/00001.png");
  const Outcome outcome =
      skipping(folder, {"-n", "3", "--save", saved(folder, "latents")});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("2 finished images have no rows"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(saved_tensor(folder, "latents").dim(0), 3);
  EXPECT_EQ(folder.read("out/00001.png"), image);
  EXPECT_EQ(skipping(folder, {"-n", "3", "--save", saved(folder, "latents")})
                .json()["nfe"],
            0);
}

TEST(Skipping, CountsWhatItMadeApartFromWhatWasThere) {
  const TempFolder folder;
  const auto skip = [&](const char* samples) {
    const Outcome outcome = run(tiny_sample(
        {"-n", samples, "-o", folder.path("out"), "--exists", "skip"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_TRUE(skip("1").starts_with("1 image in "));
  const std::string more = skip("3");
  EXPECT_TRUE(more.starts_with("2 images made, 1 was there in "));
  EXPECT_NE(more.find("no hash of all latents: 1 of 3 images was there"),
            std::string::npos)
      << more;
  EXPECT_TRUE(skip("4").starts_with("1 image made, 3 were there in "));
}

TEST(Skipping, LosesNoRowOfOtherSamples) {
  const TempFolder folder;
  ASSERT_EQ(skipping(folder, {"-n", "0:2", "--save", saved(folder, "latents")})
                .exit_code,
            0);
  const std::string before = folder.read("latents.npz");
  const Outcome outcome =
      skipping(folder, {"-n", "1:4", "--save", saved(folder, "latents")});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("1 of the rows that are there belong to no image"),
            std::string::npos)
      << outcome.err;
  const Outcome blind = run(tiny_sample(
      {"-n", "0:4", "--exists", "skip", "--save", saved(folder, "latents")}));
  EXPECT_EQ(blind.exit_code, 2);
  EXPECT_NE(blind.err.find("only images (--out) can tell"), std::string::npos)
      << blind.err;
  EXPECT_EQ(folder.read("latents.npz"), before);
}

TEST(Skipping, PutsEveryImageOnTheSheet) {
  const TempFolder folder;
  const TempFolder whole;
  const auto sheet = [](const TempFolder& place) {
    return Arguments{"-n", "4", "--grid", place.path("grid.png")};
  };
  ASSERT_EQ(skipping(whole, sheet(whole)).exit_code, 0);
  ASSERT_EQ(skipping(folder, {"-n", "1:3"}).exit_code, 0);
  ASSERT_EQ(skipping(folder, sheet(folder)).exit_code, 0);
  EXPECT_EQ(folder.read("grid.png"), whole.read("grid.png"));
  std::filesystem::remove(folder.path("grid.png"));
  const Outcome nothing_new = skipping(folder, sheet(folder));
  EXPECT_EQ(nothing_new.exit_code, 0);
  EXPECT_EQ(nothing_new.json()["nfe"], 0);
  EXPECT_EQ(folder.read("grid.png"), whole.read("grid.png"));
}

}  // namespace
}  // namespace troupe::test

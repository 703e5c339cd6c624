#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "actors/artefacts/png.h"
#include "kernels/core/hash.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

/// A run that skips what is there, of seed 7 unless more is said.
Outcome skipping(const TempFolder& folder, const char* samples,
                 const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {
      "-n",   samples, "--class",          "1",     "--seed", "7", "--exists",
      "skip", "-o",    folder.path("out"), "--json"};
  arguments = overridden(std::move(arguments), more);
  return run(tiny_sample(std::move(arguments)));
}

constexpr const char* kFirst = "out/00000.png";

bool notes_say(const nlohmann::json& json, const std::string& what) {
  return std::ranges::any_of(json["notes"], [&](const auto& note) {
    return note.template get<std::string>().find(what) != std::string::npos;
  });
}

/// Every way to damage a PNG behind its recipe.
std::vector<std::string> damaged(const std::string& whole) {
  const std::size_t pixels = whole.find("IDAT") - 4;
  std::vector<std::string> all = {whole + "x"};
  for (const std::size_t size :
       {pixels, pixels + 5, pixels + 20, whole.size() - 12, whole.size() - 1}) {
    all.push_back(whole.substr(0, size));
  }
  for (const std::size_t at :
       {pixels + 1, pixels + 12, pixels + 30, whole.size() - 14}) {
    all.push_back(whole);
    all.back()[at] = static_cast<char>(all.back()[at] ^ 1);
  }
  return all;
}

TEST(Resuming, MakesADamagedImageOfThisJobAnew) {
  const TempFolder folder;
  ASSERT_EQ(skipping(folder, "2").exit_code, 0);
  const std::string whole = folder.read("out/00000.png");
  for (const std::string& bad : damaged(whole)) {
    (void)folder.write("out/00000.png", bad);
    const Outcome outcome = skipping(folder, "2");
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(folder.read("out/00000.png"), whole);
    EXPECT_NE(outcome.err.find("damaged and made anew"), std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.err.find("00000.png"), std::string::npos) << outcome.err;
    const nlohmann::json json = outcome.json();
    EXPECT_TRUE(notes_say(json, "damaged and made anew"));
    EXPECT_EQ(json["images"][0]["status"], "done");
    EXPECT_EQ(json["images"][1]["status"], "skipped");
  }
}

TEST(Resuming, MakesTheRowOfADamagedImageAnewToo) {
  const TempFolder folder;
  const std::vector<std::string> save = {
      "--save", "latents=" + folder.path("latents.npz")};
  ASSERT_EQ(skipping(folder, "2", save).exit_code, 0);
  const std::string rows = folder.read("latents.npz");
  const std::string whole = folder.read("out/00000.png");
  (void)folder.write("out/00000.png", whole.substr(0, whole.size() - 1));
  const Outcome outcome = skipping(folder, "2", save);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["images"][1]["status"], "skipped");
  EXPECT_EQ(folder.read("out/00000.png"), whole);
  EXPECT_EQ(folder.read("latents.npz"), rows);
}

/// What a power cut or a full disk leaves of a PNG: nothing says whose it was,
/// and no picture is lost with it.
std::vector<std::string> wrecks_of(const std::string& whole) {
  const std::size_t recipe = whole.find("iTXt") - 4;
  const std::size_t pixels = whole.find("IDAT") - 4;
  std::vector<std::string> all = {std::string(whole.size(), '\0')};
  for (const std::size_t size : {std::size_t{0}, std::size_t{5},
                                 std::size_t{20}, recipe + 30, pixels - 1}) {
    all.push_back(whole.substr(0, size));
  }
  for (const std::size_t from : {std::size_t{8}, recipe, recipe + 4}) {
    all.push_back(whole.substr(0, from) +
                  std::string(whole.size() - from, '\0'));
  }
  return all;
}

TEST(Resuming, MakesAFileWithoutAPictureAnew) {
  const TempFolder folder;
  const std::vector<std::string> save = {
      "--save", "latents=" + folder.path("latents.npz")};
  ASSERT_EQ(skipping(folder, "2", save).exit_code, 0);
  const std::string whole = folder.read(kFirst);
  const std::string rows = folder.read("latents.npz");
  for (const std::string& bad : wrecks_of(whole)) {
    (void)folder.write(kFirst, bad);
    const Outcome outcome = skipping(folder, "2", save);
    ASSERT_EQ(outcome.exit_code, 0) << bad.size() << outcome.err;
    EXPECT_EQ(folder.read(kFirst), whole);
    EXPECT_EQ(folder.read("latents.npz"), rows);
    const nlohmann::json json = outcome.json();
    EXPECT_TRUE(notes_say(json, "damaged and made anew: ")) << json["notes"];
    EXPECT_TRUE(notes_say(json, kFirst));
    EXPECT_EQ(json["images"][0]["status"], "done");
    EXPECT_EQ(json["images"][1]["status"], "skipped");
  }
}

/// Others' files, and a whole picture whose recipe cannot be trusted.
TEST(Resuming, LeavesAFileThatNamesNoJob) {
  const TempFolder folder;
  ASSERT_EQ(skipping(folder, "1").exit_code, 0);
  const std::string whole = folder.read("out/00000.png");
  std::vector<std::string> files = {whole, "a text", "\xff\xd8\xff\xe0 a JPEG"};
  files[0][whole.find("iTXt") + 56] ^= 1;
  for (const std::string& bad : files) {
    (void)folder.write("out/00000.png", bad);
    const Outcome outcome = skipping(folder, "2");
    EXPECT_EQ(outcome.exit_code, 6) << outcome.err;
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    EXPECT_EQ(folder.read("out/00000.png"), bad);
    EXPECT_FALSE(std::filesystem::exists(folder.path("out/00001.png")));
  }
}

/// Of images that are whole the rows are made again, and of the file's rest
/// nothing is believed.
TEST(Resuming, MakesADamagedFileOfRowsAnew) {
  for (const std::string ending : {".npz", ".npy", ".safetensors"}) {
    const TempFolder folder;
    const std::string name = "latents" + ending;
    const std::vector<std::string> save = {"--save",
                                           "latents=" + folder.path(name)};
    ASSERT_EQ(skipping(folder, "2", save).exit_code, 0);
    const std::string rows = folder.read(name);
    const std::string image = folder.read(kFirst);
    for (const std::string& bad :
         {std::string(), rows.substr(0, rows.size() - 100),
          std::string(rows.size(), '\0')}) {
      (void)folder.write(name, bad);
      const Outcome outcome = skipping(folder, "2", save);
      ASSERT_EQ(outcome.exit_code, 0) << ending << outcome.err;
      EXPECT_EQ(folder.read(name), rows);
      EXPECT_EQ(folder.read(kFirst), image);
      EXPECT_TRUE(notes_say(outcome.json(), "damaged and made anew: "));
    }
    (void)folder.write(name, "a text of somebody");
    EXPECT_NE(skipping(folder, "2", save).exit_code, 0) << ending;
    EXPECT_EQ(folder.read(name), "a text of somebody");
  }
}

TEST(Resuming, LeavesADamagedImageOfAnotherJob) {
  const TempFolder folder;
  ASSERT_EQ(skipping(folder, "1").exit_code, 0);
  const auto expect_refused = [&](const std::vector<std::string>& more,
                                  const char* says) {
    std::string bad = folder.read("out/00000.png");
    bad.resize(bad.size() - 20);
    (void)folder.write("out/00000.png", bad);
    const Outcome outcome = skipping(folder, "2", more);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
    EXPECT_EQ(folder.read("out/00000.png"), bad);
  };
  const std::string whole = folder.read("out/00000.png");
  expect_refused({"--seed", "8"}, "seed is 7 there and 8 here");
  (void)folder.write("out/00000.png", whole);
  change_recipe(folder, kFirst, "/weights_xxh3", "0123456789abcdef");
  expect_refused({}, "weights have the hash 0123456789abcdef");
}

TEST(Resuming, MakesADamagedSheetAnew) {
  const TempFolder folder;
  const std::vector<std::string> grid = {"--grid", folder.path("grid.png")};
  ASSERT_EQ(skipping(folder, "2", grid).exit_code, 0);
  const std::string whole = folder.read("grid.png");
  for (const std::string& bad :
       {whole.substr(0, whole.size() - 5), whole.substr(0, 30), std::string(),
        std::string(whole.size(), '\0')}) {
    (void)folder.write("grid.png", bad);
    const Outcome outcome = skipping(folder, "2", grid);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(folder.read("grid.png"), whole);
  }
}

TEST(Resuming, MakesABlankTraceAnew) {
  const TempFolder folder;
  const std::vector<std::string> trace = {"--trace", folder.path("t.json")};
  ASSERT_EQ(skipping(folder, "1", trace).exit_code, 0);
  for (const std::string& bad : {std::string(), std::string(100, '\0')}) {
    (void)folder.write("t.json", bad);
    std::filesystem::remove(folder.path(kFirst));
    const Outcome outcome = skipping(folder, "1", trace);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_GT(folder.read("t.json").size(), 100U);
  }
}

/// A run of many images, killed once some are there.
void kill_amid(const TempFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"-o", folder.path("out"), "--exists",
                                     "skip", "--class", "1", "--seed", "7"});
  Program program(tiny_sample(std::move(arguments)));
  program.await([&] {
    return std::filesystem::exists(folder.path("out/00005.png")) &&
           std::filesystem::exists(folder.path("out/00012.png"));
  });
  program.signal(SIGKILL);
  (void)program.wait();
}

/// Also after two kills, and for other samples.
TEST(Resuming, TakesTheRowsOfAKilledRun) {
  constexpr const char* kSome = "0:30";
  const auto save_in = [](const TempFolder& in) -> std::vector<std::string> {
    return {"--save", "latents=" + in.path("latents.npz"), "--save",
            "trajectory=" + in.path("points.safetensors")};
  };
  const TempFolder folder;
  for (const char* samples : {"3:2000", "0:2000"}) {
    std::vector<std::string> arguments = save_in(folder);
    arguments.insert(arguments.end(), {"-n", samples});
    kill_amid(folder, arguments);
    std::filesystem::remove(folder.path("out/00005.png"));  // waited for
    EXPECT_FALSE(std::filesystem::exists(folder.path("latents.npz")));
  }
  std::size_t there = 0;
  for (int i = 0; i < 30; ++i) {
    const std::string name = "out/000" + std::string(i < 10 ? "0" : "");
    there +=
        std::filesystem::exists(folder.path(name + std::to_string(i) + ".png"))
            ? 1
            : 0;
  }
  ASSERT_GE(there, 8U);
  const Outcome outcome = skipping(folder, kSome, save_in(folder));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  EXPECT_EQ(std::ranges::count_if(
                json["images"],
                [](const auto& one) { return one["status"] == "skipped"; }),
            there);
  const TempFolder whole;
  const Outcome at_once = skipping(whole, kSome, save_in(whole));
  ASSERT_EQ(at_once.exit_code, 0) << at_once.err;
  EXPECT_EQ(json["latents_xxh3"], at_once.json()["latents_xxh3"]);
  for (const std::string name : {"latents.npz", "points.safetensors"}) {
    EXPECT_TRUE(folder.read(name) == whole.read(name)) << name;
    EXPECT_FALSE(std::filesystem::exists(folder.path(name + ".part")));
  }
}

/// Killed behind the last image: what is left is only to be made whole.
TEST(Resuming, WritesTheRowsThatAKilledRunLeftOfAllImages) {
  const TempFolder folder;
  const std::vector<std::string> save = {
      "--save", "latents=" + folder.path("latents.npy")};
  kill_amid(folder, {"-n", "2000", "--save", save[1]});
  const nlohmann::json json = skipping(folder, "5:6", save).json();
  EXPECT_EQ(json["nfe"], 0);
  EXPECT_EQ(json["images"][0]["status"], "skipped");
  EXPECT_TRUE(std::filesystem::exists(folder.path("latents.npy")));
  EXPECT_FALSE(std::filesystem::exists(folder.path("latents.npy.part")));
  const TempFolder whole;
  ASSERT_EQ(
      skipping(whole, "5:6", {"--save", "latents=" + whole.path("latents.npy")})
          .exit_code,
      0);
  EXPECT_EQ(folder.read("latents.npy"), whole.read("latents.npy"));
}

TEST(Resuming, NamesTheClassOfImagesThatWereThere) {
  const TempFolder folder;
  const Outcome first = skipping(folder, "1");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const auto here = first.json()["execution_class"].get<std::string>();
  EXPECT_FALSE(first.json()["images"][0].contains("execution_class"));
  const nlohmann::json same = skipping(folder, "2").json();
  EXPECT_EQ(same["images"][0]["execution_class"], here);
  EXPECT_EQ(same["execution_class"], here);
  change_recipe(folder, kFirst, "/execution_class", "0123456789abcdef");
  const nlohmann::json mixed = skipping(folder, "3").json();
  EXPECT_EQ(mixed["execution_class"], "mixed");
  EXPECT_EQ(mixed["images"][0]["execution_class"], "0123456789abcdef");
  EXPECT_EQ(mixed["images"][1]["execution_class"], here);
  EXPECT_EQ(mixed["images"][2]["execution_class"], here);
  const nlohmann::json nothing_new = skipping(folder, "3").json();
  EXPECT_EQ(nothing_new["execution_class"], "mixed");
  EXPECT_EQ(nothing_new["images"][0]["execution_class"], "0123456789abcdef");
}

TEST(Resuming, LeavesTheHashOfTheWholeJobOutWhereItKnowsAPart) {
  const TempFolder folder;
  const nlohmann::json first = skipping(folder, "2").json();
  EXPECT_TRUE(first.contains("latents_xxh3"));
  for (const char* samples : {"3", "3"}) {  // then nothing is left to do
    const nlohmann::json json = skipping(folder, samples).json();
    EXPECT_EQ(json["status"], "done");
    EXPECT_FALSE(json.contains("latents_xxh3")) << json;
    EXPECT_TRUE(notes_say(json, "latents_xxh3 of the whole job is left out"));
    EXPECT_TRUE(
        notes_say(json, "of 3 images were there without their latents"));
    for (const auto& i : {0, 1}) {
      EXPECT_EQ(json["images"][i]["latents_xxh3"],
                first["images"][i]["latents_xxh3"]);
    }
  }
}

TEST(Resuming, KnowsTheWholeHashByTheRowsThatWereSaved) {
  const TempFolder folder;
  const std::vector<std::string> save = {
      "--save", "latents=" + folder.path("latents.npz")};
  ASSERT_EQ(skipping(folder, "2", save).exit_code, 0);
  const nlohmann::json more = skipping(folder, "3", save).json();
  const TempFolder whole;
  EXPECT_EQ(more["latents_xxh3"], skipping(whole, "3").json()["latents_xxh3"]);
  EXPECT_FALSE(notes_say(more, "left out"));
  const nlohmann::json nothing_new = skipping(folder, "3", save).json();
  EXPECT_EQ(nothing_new["nfe"], 0);
  EXPECT_EQ(nothing_new["latents_xxh3"], more["latents_xxh3"]);
}

}  // namespace
}  // namespace troupe::test

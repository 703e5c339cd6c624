// Prompts that were encoded in an earlier run.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class EncodingCache : public testing::Test {
 protected:
  [[nodiscard]] Outcome sample(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {
        "sample", "--random-weights", "tiny-sdxl", "--steps",    "2",
        "-p",     "a red fox",        "--json",    "--progress", "none",
        "-v",     "--dtype",          "f32"};
    arguments = overridden(std::move(arguments), more);
    return run(std::move(arguments));
  }
  [[nodiscard]] Outcome sample_with_cache(
      std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--cache", folder_.path("cache")});
    return sample(std::move(more));
  }
  /// Those of texts, or of the hashes of weights.
  [[nodiscard]] std::vector<fs::path> files(
      const std::string& kind = ".safetensors") const {
    std::vector<fs::path> files;
    for (const auto& file :
         fs::directory_iterator(folder_.path("cache/encoded"))) {
      if (file.path().extension() == kind) {
        files.push_back(file.path());
      }
    }
    return files;
  }
  static void expect_kept(const Outcome& outcome, const std::string& texts) {
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find(texts + " encoded before"), std::string::npos)
        << outcome.err;
  }

  TempFolder folder_;
};

TEST_F(EncodingCache, GivesTheBytesOfTheEncoders) {
  const Outcome without = sample({});
  ASSERT_EQ(without.exit_code, 0) << without.err;
  const Outcome first = sample_with_cache();
  expect_kept(first, "0 texts");
  EXPECT_EQ(files().size(), 2U) << "one of each encoder";
  const Outcome second = sample_with_cache();
  expect_kept(second, "2 texts");
  for (const Outcome* outcome : {&first, &second}) {
    EXPECT_EQ(outcome->json()["latents_xxh3"], without.json()["latents_xxh3"]);
  }
}

/// What the cache holds afterwards is what was encoded.
TEST(EncodedPrompts, AreThoseOfImagesThatAreDrawn) {
  const TempFolder folder;
  const std::string file =
      folder.write("p.txt", "a\nb\nc\na\nd\ne\nf\n");  // "a" is twice there
  const auto drawn = [&](const std::string& name, Words more) {
    Words words = {"sample",     "--random-weights",
                   "tiny-sd15",  "--steps",
                   "2",          "--prompt-file",
                   file,         "--json",
                   "--progress", "none",
                   "--cache",    folder.path(name)};
    words = overridden(std::move(words), more);
    const Outcome outcome = run(std::move(words));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const auto json = outcome.json();
    std::map<int, std::string> latents;
    for (const auto& image : json["images"]) {
      latents[image["index"]] = image["latents_xxh3"];
    }
    return latents;
  };
  const auto texts = [&](const std::string& name) {
    return std::ranges::count_if(
        fs::directory_iterator(folder.path(name + "/encoded")),
        [](const auto& entry) {
          return entry.path().extension() == ".safetensors";
        });
  };
  const auto all = drawn("all", {});
  EXPECT_EQ(all.size(), 7U);
  EXPECT_EQ(texts("all"), 6 + 1) << "and the negative prompt";
  const auto some = drawn("some", {"-n", "3:5", "-o", folder.path("out")});
  EXPECT_EQ(texts("some"), 2 + 1);
  const auto round = drawn("round", {"-n", "6:8"});
  EXPECT_EQ(texts("round"), 2 + 1) << "the last and, again, the first";
  EXPECT_EQ(round.at(6), all.at(6));
  for (const auto& [index, latents] : some) {
    EXPECT_EQ(latents, all.at(index));
  }
  const auto rest = drawn(
      "rest", {"-n", "0:6", "-o", folder.path("out"), "--exists", "skip"});
  EXPECT_EQ(texts("rest"), 4 + 1);
  for (const auto& [index, latents] : rest) {
    EXPECT_EQ(latents, all.at(index));
  }
  // Negative prompts of images that are not drawn are left out, too.
  const Words negatives = {"--negative-prompt-file",
                           folder.write("n.txt", "1\n2\n3\n4\n5\n6\n7\n")};
  const auto pairs = drawn("pairs", negatives);
  EXPECT_EQ(texts("pairs"), 6 + 7);
  const auto two = drawn("two", overridden(negatives, {"-n", "3:5"}));
  EXPECT_EQ(texts("two"), 2 + 2);
  EXPECT_EQ(two.size(), 2U);
  for (const auto& [index, latents] : two) {
    EXPECT_EQ(latents, pairs.at(index));
    EXPECT_NE(latents, all.at(index));
  }
}

TEST_F(EncodingCache, IsOfTheTextsThatEachEncoderReads) {
  expect_kept(sample_with_cache(), "0 texts");
  expect_kept(sample_with_cache({"--prompt-2", "a hen"}), "1 text");
  expect_kept(sample_with_cache({"--negative-prompt", "rain"}), "2 texts");
  expect_kept(sample_with_cache({"--prompt-2", "rain"}), "2 texts");
}

/// A negative prompt leaves out no layer: the same text is encoded twice.
TEST_F(EncodingCache, IsOfTheLayerThatIsWanted) {
  expect_kept(sample_with_cache(), "0 texts");
  expect_kept(sample_with_cache({"--clip-skip", "0"}), "2 texts");
  expect_kept(sample_with_cache({"--clip-skip", "1"}), "0 texts");
  const Outcome both =
      sample_with_cache({"--clip-skip", "1", "--negative-prompt", "a red fox"});
  expect_kept(both, "4 texts");
  EXPECT_EQ(both.json()["latents_xxh3"],
            sample({"--clip-skip", "1", "--negative-prompt", "a red fox"})
                .json()["latents_xxh3"]);
}

TEST_F(EncodingCache, ServesTroupeEncodeToo) {
  expect_kept(sample_with_cache(), "0 texts");
  const Outcome encoded =
      run({"encode", "--random-weights", "tiny-sdxl", "-p", "a red fox", "-o",
           folder_.path("fox.safetensors"), "--dtype", "f32", "-v", "--cache",
           folder_.path("cache")});
  expect_kept(encoded, "2 texts");
}

TEST_F(EncodingCache, MendsADamagedFile) {
  const Outcome first = sample_with_cache();
  expect_kept(first, "0 texts");
  for (const fs::path& file : files()) {
    fs::resize_file(file, fs::file_size(file) - 8);
  }
  const Outcome second = sample_with_cache();
  expect_kept(second, "0 texts");
  EXPECT_NE(second.err.find("damaged"), std::string::npos) << second.err;
  EXPECT_EQ(second.json()["latents_xxh3"], first.json()["latents_xxh3"]);
  expect_kept(sample_with_cache(), "2 texts");
}

/// A bit that no reader of the format sees.
TEST_F(EncodingCache, SeesAFlippedBit) {
  const Outcome first = sample_with_cache();
  for (const fs::path& file : files()) {
    const std::string name = "cache/encoded/" + file.filename().string();
    std::string bytes = folder_.read(name);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    (void)folder_.write(name, bytes);
  }
  const Outcome second = sample_with_cache();
  expect_kept(second, "0 texts");
  EXPECT_EQ(second.json()["latents_xxh3"], first.json()["latents_xxh3"]);
}

/// Then the encoder is read, and the texts are found by its weights.
TEST_F(EncodingCache, LivesWithoutTheHashesOfWeights) {
  const Outcome first = sample_with_cache();
  EXPECT_EQ(files(".weights").size(), 2U);
  for (const std::string text : {"", "0123456789abcdef", "nothing", "0"}) {
    for (const fs::path& file : files(".weights")) {
      (void)folder_.write("cache/encoded/" + file.filename().string(), text);
    }
    const Outcome again = sample_with_cache();
    expect_kept(again, "0 texts");
    expect_kept(again, "1 text");  // of each encoder
    EXPECT_EQ(again.json()["latents_xxh3"], first.json()["latents_xxh3"]);
    expect_kept(sample_with_cache(), "2 texts");
  }
}

/// Files are known by their stamps, and texts by the weights in them.
TEST_F(EncodingCache, IsOfTheWeightsWhereverTheyLie) {
  fs::copy(fs::path(TROUPE_GOLDEN) / "pipeline_sd15", folder_.path("model"),
           fs::copy_options::recursive);
  const auto draw = [&](const std::string& model) {
    return run({"sample", "--model", folder_.path(model), "-p", "a fox",
                "--steps", "2", "--dtype", "f32", "-v", "--cache",
                folder_.path("cache"), "-o", folder_.path("fox.png"),
                "--exists", "replace"});
  };
  const std::string by_weights =
      "text_encoder: 2 texts encoded before with these weights";
  const auto expect_found = [&](const Outcome& outcome, bool is_found) {
    expect_kept(outcome, "0 texts");
    EXPECT_EQ(outcome.err.find(by_weights) != std::string::npos, is_found)
        << outcome.err;
  };
  expect_found(draw("model"), false);
  expect_kept(draw("model"), "2 texts");
  fs::copy(folder_.path("model"), folder_.path("copy"),
           fs::copy_options::recursive);
  expect_found(draw("copy"), true);
  expect_kept(draw("copy"), "2 texts");
  const std::string weights = "model/text_encoder/model.safetensors";
  std::string bytes = folder_.read(weights);
  (void)folder_.write(weights, bytes);
  expect_found(draw("model"), true);
  bytes[bytes.size() - 4] = static_cast<char>(bytes[bytes.size() - 4] ^ 1);
  (void)folder_.write(weights, bytes);
  expect_found(draw("model"), false);
}

/// As `cp -p` leaves it: an older file's times, and the size is as before.
TEST_F(EncodingCache, SeesWeightsThatWereCopiedOverWithTheirTimes) {
  fs::copy(fs::path(TROUPE_GOLDEN) / "pipeline_sd15", folder_.path("model"),
           fs::copy_options::recursive);
  const auto draw = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "sample",   "--model", folder_.path("model"),
        "-p",       "a fox",   "--steps",
        "2",        "--dtype", "f32",
        "--json",   "-o",      folder_.path("fox.png"),
        "--exists", "replace"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json()["latents_xxh3"];
  };
  const std::vector<std::string> cached = {"--cache", folder_.path("cache")};
  const auto before = draw(cached);
  const std::string weights = "model/text_encoder/model.safetensors";
  const auto time = fs::last_write_time(folder_.path(weights));
  std::string bytes = folder_.read(weights);
  for (std::size_t i = 1; i <= 200; ++i) {  // the low bytes of the last f32
    bytes[bytes.size() - 4 * i + 1] ^= 0x40;
  }
  (void)folder_.write(weights, bytes);
  fs::last_write_time(folder_.path(weights), time);
  const auto after = draw({});
  EXPECT_NE(after, before);
  EXPECT_EQ(draw(cached), after);
}

TEST_F(EncodingCache, ThatCannotBeWrittenStopsNoRun) {
  (void)folder_.write("cache", "a file");
  const Outcome outcome = sample_with_cache();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  // Said once for all of them.
  const std::size_t said = outcome.err.find("is not kept");
  EXPECT_NE(said, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.rfind("is not kept"), said) << outcome.err;
  EXPECT_NE(outcome.err.find("Not a directory"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("--cache"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace troupe::test

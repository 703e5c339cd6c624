// Prompts that were encoded in an earlier run.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;

class EncodingCache : public testing::Test {
 protected:
  [[nodiscard]] Outcome sample(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {
        "sample", "--random-weights", "tiny-sdxl", "--steps",    "2",
        "-p",     "a red fox",        "--json",    "--progress", "none",
        "-v",     "--dtype",          "f32"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(std::move(arguments));
  }
  [[nodiscard]] Outcome sample_with_cache(
      std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--cache", folder_.path("cache")});
    return sample(std::move(more));
  }
  [[nodiscard]] std::vector<fs::path> files() const {
    std::vector<fs::path> files;
    for (const auto& file :
         fs::directory_iterator(folder_.path("cache/encoded"))) {
      files.push_back(file.path());
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

/// Weights are known by the files that hold them.
TEST_F(EncodingCache, IsNotOfAnotherEncoder) {
  fs::copy(fs::path(TROUPE_GOLDEN) / "pipeline_sd15", folder_.path("model"),
           fs::copy_options::recursive);
  const auto draw = [&] {
    return run({"sample", "--model", folder_.path("model"), "-p", "a fox",
                "--steps", "2", "--dtype", "f32", "-v", "--cache",
                folder_.path("cache"), "-o", folder_.path("fox.png"),
                "--exists", "replace"});
  };
  expect_kept(draw(), "0 texts");
  expect_kept(draw(), "2 texts");
  const std::string weights = "model/text_encoder/model.safetensors";
  (void)folder_.write(weights, folder_.read(weights));
  expect_kept(draw(), "0 texts");
}

TEST_F(EncodingCache, ThatCannotBeWrittenStopsNoRun) {
  (void)folder_.write("cache", "a file");
  const Outcome outcome = sample_with_cache();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("is not kept"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace troupe::test

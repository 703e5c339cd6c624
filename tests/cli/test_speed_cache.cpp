// The file of the speeds that earlier jobs measured.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "actors/cli/earlier_speeds.h"
#include "tests/core/temporary_folder.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

class SpeedFile : public testing::Test {
 protected:
  [[nodiscard]] fs::path folder() const { return folder_.path() / "cache"; }
  void write(const std::string& text) const {
    fs::create_directories(folder());
    std::ofstream(folder() / "speeds.json") << text;
  }
  /// What is said of a file when it is read.
  [[nodiscard]] std::string warning() const {
    testing::internal::CaptureStderr();
    const SpeedCache cache(folder());
    EXPECT_EQ(cache.find("a"), 0);
    return testing::internal::GetCapturedStderr();
  }

  TemporaryFolder folder_;
};

TEST_F(SpeedFile, IsReadByTheNextJob) {
  const SpeedCache empty(folder());
  EXPECT_EQ(empty.find("a"), 0);
  empty.keep({{"a", 0.1}, {"b", 1.0 / 3}});
  EXPECT_EQ(empty.find("a"), 0) << "a job keeps to what it began with";
  const SpeedCache next(folder());
  EXPECT_EQ(next.find("a"), 0.1);
  EXPECT_EQ(next.find("b"), 1.0 / 3);
  next.keep({{"a", 0.2}});
  const SpeedCache last(folder());
  EXPECT_EQ(last.find("a"), 0.2);
  EXPECT_EQ(last.find("b"), 1.0 / 3);
}

TEST_F(SpeedFile, IsNotThereWithoutAFolder) {
  const SpeedCache off({});
  EXPECT_FALSE(off.is_on());
  off.keep({{"a", 0.1}});
  EXPECT_EQ(off.find("a"), 0);
}

// A copy of such a value would call itself for each level.
TEST_F(SpeedFile, WithManyLevelsIsAsNone) {
  constexpr int kLevels = 100'000;
  const std::string deep =
      std::string(kLevels, '[') + std::string(kLevels, ']');
  for (const char* key : {"troupe_speeds", "seconds_per_row", "other"}) {
    write("{\"" + std::string(key) + "\": " + deep + "}");
    EXPECT_NE(warning().find("damaged"), std::string::npos) << key;
  }
}

TEST_F(SpeedFile, ThatIsDamagedOrForeignIsAsNone) {
  for (const std::string text :
       {"", "{", "[]", "7", "null", "\"text\"", "{\"a\": 0.1}",
        R"({"troupe_speeds": 2, "seconds_per_row": []})",
        R"({"troupe_speeds": 1})",
        R"({"troupe_speeds": 1, "seconds_per_row": {}})",
        R"({"troupe_speeds": 1, "seconds_per_row": [["a"]]})",
        R"({"troupe_speeds": 1, "seconds_per_row": [["a", "b"]]})",
        R"({"troupe_speeds": 1, "seconds_per_row": [["a", -1]]})",
        R"({"troupe_speeds": 1, "seconds_per_row": [["a", 1e300]]})",
        R"({"troupe_speeds": 1, "seconds_per_row": [[1, 1]]})"}) {
    write(text);
    const std::string said = warning();
    EXPECT_NE(said.find("speeds.json: damaged"), std::string::npos) << text;
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
    SpeedCache(folder()).keep({{"a", 0.5}});
    EXPECT_EQ(SpeedCache(folder()).find("a"), 0.5) << "it is mended";
  }
  write(std::string(std::size_t{2} << 20U, ' '));
  EXPECT_NE(warning(), "") << "too long";
  fs::remove(folder() / "speeds.json");
  fs::create_directory(folder() / "speeds.json");
  EXPECT_NE(warning(), "") << "a folder";
  SpeedCache(folder()).keep({{"a", 0.5}});
}

TEST_F(SpeedFile, LosesNothingOfSeveralWriters) {
  constexpr int kWriters = 4;
  constexpr int kEach = 20;
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([this, w] {
      for (int i = 0; i < kEach; ++i) {
        SpeedCache(folder()).keep(
            {{std::to_string(w) + " " + std::to_string(i), 0.25}});
      }
    });
  }
  for (std::thread& writer : writers) {
    writer.join();
  }
  const SpeedCache all(folder());
  for (int w = 0; w < kWriters; ++w) {
    for (int i = 0; i < kEach; ++i) {
      EXPECT_EQ(all.find(std::to_string(w) + " " + std::to_string(i)), 0.25);
    }
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), {}), 2)
      << "the file and its lock";
}

TEST_F(SpeedFile, KeepsTheNewest) {
  const SpeedCache cache(folder());
  cache.keep({{"oldest", 0.25}});
  cache.keep(
      {{std::string(SpeedCache::kLongestName + 1, 'n'), 0.25}, {"never", 0.0}});
  SpeedCache::Speeds many;
  for (std::size_t i = 0; i + 1 < SpeedCache::kMostSpeeds; ++i) {
    std::string name = std::to_string(i);
    name.resize(SpeedCache::kLongestName, 'n');
    many.emplace(name, 0.123456789012345678);
  }
  cache.keep(many);
  EXPECT_EQ(SpeedCache(folder()).find("oldest"), 0.25);
  cache.keep({{"newest", 0.5}});
  const SpeedCache full(folder());
  EXPECT_EQ(full.find("oldest"), 0);
  EXPECT_EQ(full.find("newest"), 0.5);
  EXPECT_LT(fs::file_size(folder() / "speeds.json"), std::size_t{1} << 20U);
}

}  // namespace
}  // namespace troupe::actors

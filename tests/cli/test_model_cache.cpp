// Workers that get the model from the job: --cache.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/cli/link_job.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return std::move(content).str();
}

/// The regular files below a folder, by their path within it.
std::map<std::string, fs::path> files_below(const fs::path& folder) {
  std::map<std::string, fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      files[entry.path().lexically_relative(folder).generic_string()] =
          entry.path();
    }
  }
  return files;
}

/// The one model of a cache.
fs::path only_model(const fs::path& cache) {
  fs::path model;
  for (const auto& entry : fs::directory_iterator(cache)) {
    if (entry.is_directory()) {
      EXPECT_TRUE(model.empty()) << entry.path();
      model = entry.path();
    }
  }
  EXPECT_NE(model.extension(), ".part");
  return model;
}

void expect_copy_of_demo(const fs::path& model) {
  const auto files = files_below(model);
  EXPECT_GE(files.size(), 5U);
  EXPECT_TRUE(files.contains("model_index.json"));
  EXPECT_FALSE(files.contains("samples.png")) << "nobody needs it";
  for (const auto& [name, path] : files) {
    EXPECT_EQ(content_of(path), content_of(fs::path(TROUPE_DEMO) / name))
        << name;
  }
}

ino_t inode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_ino;
}

fs::path largest_file(const fs::path& model) {
  const auto files = files_below(model);
  return std::ranges::max_element(
             files, {},
             [](const auto& file) { return fs::file_size(file.second); })
      ->second;
}

class ModelCache : public ::testing::Test {
 protected:
  /// A job whose one worker has the cache alone. Returns what that says.
  std::string run_worker() {
    LinkJob job({"--method", "batch", "-n", "2"}, TROUPE_DEMO);
    job.add_worker({"--cache", cache_});
    const nlohmann::json result = job.finish();
    EXPECT_EQ(result["images"].size(), 2U);
    const std::string hash = result["latents_xxh3"];
    EXPECT_TRUE(hash_.empty() || hash == hash_);
    hash_ = hash;
    const Outcome outcome = job.worker(0).wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.err;
  }

  const TempFolder folder_;
  const std::string cache_ = folder_.path("cache");
  std::string hash_;
};

TEST_F(ModelCache, IsFilledOnceForAllProcessesOfAHost) {
  LinkJob job({"--method", "batch", "-n", "6"}, TROUPE_DEMO);
  for (int i = 0; i < 3; ++i) {
    job.add_worker({"--cache", cache_});
  }
  const nlohmann::json result = job.finish();
  EXPECT_EQ(result["latents_xxh3"], job.alone()["latents_xxh3"]);
  int fetches = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const Outcome outcome = job.worker(i).wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    fetches += outcome.err.find("fetched") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(fetches, 1);
  expect_copy_of_demo(only_model(cache_));
  EXPECT_EQ(run_worker().find("fetched"), std::string::npos);
}

TEST_F(ModelCache, GoesOnWhereFetchingWasBroken) {
  (void)run_worker();
  const fs::path whole = only_model(cache_);
  const fs::path part = whole.string() + ".part";
  fs::rename(whole, part);
  const fs::path broken = largest_file(part);
  ASSERT_GT(fs::file_size(broken), 3U << 20U);
  fs::resize_file(broken, (2U << 20U) + 1000);
  fs::remove(part / "model_index.json");
  std::ofstream(part / "transformer" / "another.json") << "of another host";
  const ino_t inode = inode_of(broken);
  EXPECT_NE(run_worker().find("fetched"), std::string::npos);
  EXPECT_FALSE(fs::exists(part));
  EXPECT_FALSE(fs::exists(whole / "transformer" / "another.json"));
  expect_copy_of_demo(only_model(cache_));
  EXPECT_EQ(inode_of(largest_file(whole)), inode) << "it was begun anew";
}

TEST_F(ModelCache, ReplacesADamagedCopy) {
  (void)run_worker();
  const fs::path damaged = largest_file(only_model(cache_));
  std::fstream file(damaged, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(-1000, std::ios::end);
  file.write("damage", 6);
  file.close();
  const std::string said = run_worker();
  EXPECT_NE(said.find("is damaged"), std::string::npos) << said;
  expect_copy_of_demo(only_model(cache_));
}

TEST_F(ModelCache, IsNotUsedWhereTheModelIs) {
  LinkJob job({"--method", "batch", "-n", "2"}, TROUPE_DEMO);
  job.add_worker({"--cache", cache_, "--model-root",
                  fs::path(TROUPE_DEMO).parent_path().string()});
  (void)job.finish();
  EXPECT_FALSE(fs::exists(cache_));
}

TEST_F(ModelCache, SaysWhereItCannotBe) {
  std::ofstream(cache_) << "a file";
  LinkJob job({"--method", "batch", "-n", "2"}, TROUPE_DEMO);
  job.add_worker({"--cache", cache_});
  const Outcome outcome = job.worker(0).wait();
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find(cache_), std::string::npos) << outcome.err;
  job.add_worker({"-m", TROUPE_DEMO});
  (void)job.finish();
}

}  // namespace
}  // namespace troupe::test

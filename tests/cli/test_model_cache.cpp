// Workers that get the model from the job: --cache.

#include <gtest/gtest.h>
#include <signal.h>
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
    // Not EXPECT_EQ: to show a difference of megabytes takes all memory.
    EXPECT_TRUE(content_of(path) == content_of(fs::path(TROUPE_DEMO) / name))
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

/// The copy is refused before its hash is known.
TEST_F(ModelCache, ReplacesACopyThatCannotBeUnderstood) {
  (void)run_worker();
  const fs::path model = only_model(cache_);
  const std::string weights = content_of(largest_file(model));
  std::string not_numbers = weights;
  not_numbers.replace(not_numbers.size() - 64, 64, std::string(64, '\xff'));
  const std::vector<std::pair<fs::path, std::string>> damages = {
      {largest_file(model), not_numbers},
      {largest_file(model), std::string(weights.size(), '\0')},
      {model / "transformer" / "config.json", "{}"},
      {model / "transformer" / "config.json", ""}};
  for (const auto& [path, content] : damages) {
    std::ofstream(path, std::ios::binary) << content;
    const std::string said = run_worker();
    EXPECT_NE(said.find("is damaged, and is fetched again"), std::string::npos)
        << path << said;
    expect_copy_of_demo(only_model(cache_));
  }
}

/// Two workers: the second one fetches while the first one is a member, and
/// works. That has enough to do until the other one comes.
class ModelOfTwoWorkers : public ::testing::Test {
 protected:
  void add_worker(const std::string& cache, const Arguments& more = {}) {
    Arguments arguments = {"--cache", folder_.path(cache)};
    arguments = overridden(std::move(arguments), more);
    job_.add_worker(arguments);
  }
  void await_model_in(const std::string& cache) {
    job_.head().await([&] {
      std::error_code error;
      for (const auto& entry :
           fs::directory_iterator(folder_.path(cache), error)) {
        if (entry.is_directory() && entry.path().extension() != ".part") {
          return true;
        }
      }
      return false;
    });
  }
  /// Until the first worker has joined.
  void await_worker() {
    job_.head().await([&] {
      const Outcome seen = run({"ls", job_.endpoint(), "--json"});
      if (seen.exit_code != 0) {
        return false;
      }
      const nlohmann::json nodes = seen.json()["nodes"];
      return nodes.size() == 2 && nodes[1]["workers"] == 1;
    });
  }
  /// What the second one says, when the job is done.
  std::string said_by_second() {
    static const nlohmann::json kAlone = job_.alone();
    EXPECT_EQ(job_.finish()["latents_xxh3"], kAlone["latents_xxh3"]);
    std::string said;
    for (std::size_t i = 0; i < job_.num_workers(); ++i) {
      const Outcome outcome = job_.worker(i).wait();
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      said = outcome.err;
    }
    expect_copy_of_demo(only_model(folder_.path("b")));
    return said;
  }

  const TempFolder folder_;
  LinkJob job_{{"--method", "batch", "-n", "16"}, TROUPE_DEMO};
};

TEST_F(ModelOfTwoWorkers, GoesFromOneToTheOther) {
  add_worker("a");
  await_model_in("a");
  add_worker("b");
  const std::string said = said_by_second();
  EXPECT_NE(said.find("from other workers"), std::string::npos) << said;
}

TEST_F(ModelOfTwoWorkers, ComesFromTheFoldersOfOthersToo) {
  job_.add_worker({"-m", TROUPE_DEMO});
  await_worker();
  add_worker("b");
  const std::string said = said_by_second();
  EXPECT_NE(said.find("from other workers"), std::string::npos) << said;
}

TEST_F(ModelOfTwoWorkers, IsNeitherGivenNorTakenWithoutLinks) {
  add_worker("a", {"--no-peer"});
  await_model_in("a");
  add_worker("b");
  const std::string said = said_by_second();
  EXPECT_NE(said.find("fetched"), std::string::npos) << said;
  EXPECT_EQ(said.find("from other workers"), std::string::npos) << said;
}

TEST_F(ModelOfTwoWorkers, ComesFromTheFirstProcessIfTheOtherHangs) {
  add_worker("a");
  await_worker();
  job_.worker(0).signal(SIGSTOP);
  add_worker("b");
  await_model_in("b");
  job_.worker(0).signal(SIGCONT);  // it was lost, and joins again
  const std::string said = said_by_second();
  EXPECT_NE(said.find("fetched"), std::string::npos) << said;
  EXPECT_EQ(said.find("from other workers"), std::string::npos) << said;
}

/// No process can tell which process gave the wrong chunk.
TEST_F(ModelOfTwoWorkers, IsFetchedFromTheFirstProcessAloneOnceItWasDamaged) {
  add_worker("a");
  await_worker();
  // Another file: the first worker computes with the one that it has read.
  const fs::path whole = largest_file(only_model(folder_.path("a")));
  std::string content = content_of(whole);
  for (std::size_t at = 1U << 19U; at < content.size(); at += 1U << 20U) {
    content.replace(at, 6, "damage");
  }
  fs::rename(folder_.write("damaged", content), whole);
  add_worker("b");
  const std::string said = said_by_second();
  const std::size_t wrong = said.find("is damaged");
  ASSERT_NE(wrong, std::string::npos) << said;
  EXPECT_LT(said.find("from other workers"), wrong) << said;
  EXPECT_EQ(said.find("from other workers", wrong), std::string::npos) << said;
}

TEST_F(ModelCache, IsNotUsedWhereTheModelIs) {
  LinkJob job({"--method", "batch", "-n", "2"}, TROUPE_DEMO);
  job.add_worker({"--cache", cache_, "--model-root",
                  fs::path(TROUPE_DEMO).parent_path().string()});
  (void)job.finish();
  EXPECT_FALSE(fs::exists(cache_));
}

TEST_F(ModelCache, SaysWhereItCannotBeBeforeAJobIsLookedFor) {
  std::ofstream(cache_) << "a file";
  const Outcome outcome = run(
      {"worker", "--join", "ipc://" + cache_ + ".socket/a", "--cache", cache_});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_NE(
      outcome.err.find(cache_ + "] may not be written to: Not a directory"),
      std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace troupe::test

// A run with --cache begins with the speeds that an earlier one measured.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/link_job.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

class CachedSpeeds : public testing::Test {
 protected:
  [[nodiscard]] static Outcome sample(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"sample",     "--random-weights",
                                          "dit-tiny",   "--steps",
                                          "8",          "-n",
                                          "4",          "--json",
                                          "--progress", "none",
                                          "-v",         "--workers",
                                          "2",          "--threads",
                                          "1"};
    arguments = overridden(std::move(arguments), more);
    return run(std::move(arguments));
  }
  [[nodiscard]] Outcome sample_with_cache(
      std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--cache", folder_.path("cache")});
    return sample(std::move(more));
  }
  static void expect_known(const Outcome& outcome, const std::string& workers) {
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("speeds: " + workers + " workers"),
              std::string::npos)
        << outcome.err;
  }

  TempFolder folder_;
};

TEST_F(CachedSpeeds, AreThoseOfTheRunBefore) {
  const Outcome without = sample({});
  ASSERT_EQ(without.exit_code, 0) << without.err;
  EXPECT_EQ(without.err.find("speeds: "), std::string::npos) << without.err;
  const Outcome first = sample_with_cache();
  expect_known(first, "0 of 2");
  const Outcome second = sample_with_cache();
  expect_known(second, "2 of 2");
  for (const Outcome* outcome : {&first, &second}) {
    EXPECT_EQ(outcome->json()["latents_xxh3"], without.json()["latents_xxh3"]);
  }
}

TEST_F(CachedSpeeds, AreOfTheSameThreadsAndBranchesOnly) {
  expect_known(sample_with_cache(), "0 of 2");
  expect_known(sample_with_cache({"--threads", "2"}), "0 of 2");
  expect_known(sample_with_cache({"--guidance", "1"}), "0 of 2");
  expect_known(sample_with_cache({"--seed", "7", "-n", "6"}), "2 of 2");
}

TEST_F(CachedSpeeds, DoNotNeedAFileThatCanBeRead) {
  const Outcome first = sample_with_cache();
  expect_known(first, "0 of 2");
  (void)folder_.write("cache/speeds.json", "{\"troupe_speeds\": 1, ");
  const Outcome damaged = sample_with_cache();
  expect_known(damaged, "0 of 2");
  EXPECT_NE(damaged.err.find("speeds.json: damaged"), std::string::npos)
      << damaged.err;
  EXPECT_EQ(damaged.json()["latents_xxh3"], first.json()["latents_xxh3"]);
  expect_known(sample_with_cache(), "2 of 2");
}

TEST_F(CachedSpeeds, AreThoseOfWorkersThatJoinToo) {
  for (const bool is_known : {false, true}) {
    LinkJob job({"-n", "4", "-v", "--cache", folder_.path("cache")});
    job.add_worker();
    const Outcome outcome = job.outcome();
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err.find("speeds: a worker that joins begins") !=
                  std::string::npos,
              is_known)
        << outcome.err;
    EXPECT_EQ(outcome.json()["latents_xxh3"],
              sample({"--workers", "1"}).json()["latents_xxh3"]);
  }
}

TEST_F(CachedSpeeds, ServeBenchToo) {
  const auto bench = [this] {
    return run({"bench", "--random-weights", "dit-tiny", "--steps", "8", "-n",
                "4", "--repeats", "1", "--threads", "1", "--workers", "2", "-v",
                "--json", "--cache", folder_.path("cache")});
  };
  expect_known(bench(), "0 of 1");
  expect_known(bench(), "2 of 2");
}

}  // namespace
}  // namespace troupe::test

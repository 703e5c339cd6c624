// --guess-from: the guesses of a Picard window from another run's trajectory.

#include <gtest/gtest.h>

#include "tests/cli/link_job.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

using Arguments = std::vector<std::string>;

/// A folder with the trajectory of a sequential run, and what that run says.
class WarmStart : public ::testing::Test {
 protected:
  WarmStart() { sequential_ = sample({"--save", "trajectory=" + file_}); }

  [[nodiscard]] static Outcome outcome_of(const Arguments& more) {
    return run(tiny_sample(
        overridden({"--steps", "8", "--class", "2", "--json"}, more)));
  }
  [[nodiscard]] static nlohmann::json sample(const Arguments& more) {
    const Outcome outcome = outcome_of(more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json();
  }
  [[nodiscard]] Arguments warm(const Arguments& more) const {
    return overridden(
        {"--method", "picard", "--window", "4", "--guess-from", file_}, more);
  }
  static void expect_refused(const Arguments& more, const std::string& says) {
    const Outcome outcome = outcome_of(more);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  }

  TempFolder folder_;
  std::string file_ = folder_.path("t.npz");
  nlohmann::json sequential_;
};

TEST_F(WarmStart, FromTheOwnTrajectoryTakesTheFewestRounds) {
  for (const char* const method : {"picard", "taa"}) {
    const nlohmann::json own =
        sample(warm({"--method", method, "--tolerance", "0"}));
    EXPECT_EQ(own["latents_xxh3"], sequential_["latents_xxh3"]);
    EXPECT_EQ(own["rounds"], 2);
    EXPECT_EQ(own["nfe"], 8);
  }
}

TEST_F(WarmStart, FromANeighbourIsExactAtToleranceZero) {
  const nlohmann::json cold = sample({"--seed", "5"});
  EXPECT_NE(cold["latents_xxh3"], sequential_["latents_xxh3"]);
  const nlohmann::json warm_start =
      sample(warm({"--tolerance", "0", "--seed", "5"}));
  EXPECT_EQ(warm_start["latents_xxh3"], cold["latents_xxh3"]);
}

TEST_F(WarmStart, StandsInTheRecipeWhereItDecidesPixels) {
  const std::string image = folder_.path("a.png");
  const std::string exact = folder_.path("exact.png");
  (void)sample(warm({"--tolerance", "0", "-o", exact}));
  (void)sample(warm({"--tolerance", "0.5", "--seed", "5", "-o", image}));
  const auto recipe_of = [](const std::string& path) {
    return run({"inspect", path, "--json"}).json()["items"][0]["recipe"];
  };
  EXPECT_FALSE(recipe_of(exact).contains("guess_xxh3"));
  EXPECT_EQ(recipe_of(exact)["method"]["kind"], "sequential");
  EXPECT_EQ(recipe_of(image)["guess_xxh3"].get<std::string>().size(), 16U);
  EXPECT_EQ(recipe_of(image)["method"]["initial_guess"], "trajectory");

  const auto again = [&](const Arguments& more) {
    return run(overridden({"sample", "--from", image, "-o",
                           folder_.path("b.png"), "--exists", "replace"},
                          more));
  };
  const Outcome missing = again({});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_EQ(missing.err_lines(), 1) << missing.err;
  EXPECT_NE(missing.err.find("; give --guess-from FILE"), std::string::npos)
      << missing.err;
  const Outcome same = again({"--guess-from", file_});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(folder_.read("b.png"), folder_.read("a.png"));
  const std::string other = folder_.path("other.npz");
  (void)sample({"--seed", "9", "--save", "trajectory=" + other});
  EXPECT_NE(again({"--guess-from", other}).err.find("another trajectory than"),
            std::string::npos);
  EXPECT_NE(run({"verify", image}).err.find("with --from and --guess-from"),
            std::string::npos);
  EXPECT_EQ(run({"verify", exact}).exit_code, 0);
  expect_refused(warm({"--tolerance", "0.5", "--seed", "5", "-o", image,
                       "--exists", "skip", "--guess-from", other}),
                 "guess_xxh3 is ");
}

TEST_F(WarmStart, IsRefusedBeforeWorkStarts) {
  expect_refused(warm({"--steps", "9"}),
                 "trajectory of another shape: got [1, 9, 3, 16, 16], expected "
                 "n times [10, 3, 16, 16]; give one that");
  expect_refused({"--guess-from", file_},
                 "[--guess-from] this is an option of --method picard or taa");
  expect_refused({"--method", "picard", "--guess", "trajectory"},
                 "[--guess] got trajectory, and no file of one; give "
                 "--guess-from FILE");
  expect_refused(warm({"--guess", "last_point"}),
                 "[--guess-from] guesses come from the file: got --guess "
                 "last_point");
  const std::string rows = folder_.path("rows.npz");
  (void)sample({"-n", "2", "--save", "trajectory=" + rows});
  expect_refused(warm({"--guess-from", rows, "-n", "3"}),
                 "fewer rows than samples: got 2, expected 1 or at least 3");
}

TEST_F(WarmStart, ReachesTheWorkersOfOtherProcesses) {
  const std::string rows = folder_.path("rows.npz");
  (void)sample({"-n", "2", "--dtype", "f32", "--save", "trajectory=" + rows});
  LinkJob company({"-n", "2", "--seed", "4", "--method", "picard", "--window",
                   "4", "--tolerance", "0.05", "--guess-from", rows});
  company.add_worker();
  EXPECT_EQ(company.finish()["latents_xxh3"], company.alone()["latents_xxh3"]);
}

}  // namespace
}  // namespace troupe::test

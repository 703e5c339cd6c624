// `sample --method auto --max-rmse X`, as a user runs it.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

std::vector<std::string> guided(const std::vector<std::string>& more) {
  return overridden({"sample", "--random-weights", "dit-tiny", "--class", "1",
                     "--steps", "12", "--guidance", "2", "--dtype", "f32",
                     "--workers", "4", "--threads", "1"},
                    more);
}

/// Measured on devices that are modelled.
nlohmann::json measure(int devices, const std::string& guidance,
                       const std::string& table) {
  const Outcome outcome = run({"bench",
                               "methods",
                               "--random-weights",
                               "dit-tiny",
                               "--class",
                               "1",
                               "--steps",
                               "12",
                               "--guidance",
                               guidance,
                               "--dtype",
                               "f32",
                               "-n",
                               "8",
                               "--emulate",
                               std::to_string(devices),
                               "--calibrate",
                               "--out",
                               table,
                               "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.json();
}

/// A table of dit-tiny with every setting of the bench.
class MaxRmse : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TempFolder>();
    (void)measure(4, "2", table());
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string table() { return folder_->path("methods.json"); }
  /// A file of this test.
  static std::string path(const std::string& name) {
    return folder_->path(name);
  }
  static std::vector<std::string> chosen(const std::string& most,
                                         std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"--max-rmse", most, "--method-table", table()});
    return guided(more);
  }
  /// A bound that all settings keep.
  static constexpr const char* kAny = "100";

 private:
  static inline std::unique_ptr<TempFolder> folder_;
};

/// The times of modelled devices are computed from every task and message, and
/// those of the choice from counts alone.
TEST_F(MaxRmse, IsNearTheBestOfModelledDevices) {
  std::mt19937 random(7);
  int cases = 0;
  int good = 0;
  int exact = 0;
  for (const auto& [devices, guidance] :
       {std::pair{2, "1"}, {3, "1"}, {4, "2"}, {8, "1"}}) {
    const std::string table = path(std::to_string(devices) + ".json");
    const nlohmann::json rows = measure(devices, guidance, table)["rows"];
    double largest = 0;
    std::map<std::string, double> speedups;
    for (const nlohmann::json& row : rows) {
      if (row["role"] == "method") {
        speedups[row["name"]] = row["speedup"];
        largest =
            std::max(largest, row["relative_rmse"]["median"].get<double>());
      }
    }
    std::map<std::size_t, std::string> known;  // by the settings within
    for (int i = 0; i < 25; ++i, ++cases) {
      const double most = std::uniform_real_distribution(1e-6, largest)(random);
      double best = 0;
      std::size_t within = 0;
      for (const nlohmann::json& row : rows) {
        if (row["role"] == "method" &&
            row["relative_rmse"]["median"].get<double>() <= most) {
          best = std::max(best, row["speedup"].get<double>());
          ++within;
        }
      }
      std::string& name = known[within];
      if (name.empty()) {
        const Outcome outcome =
            run(guided({"--max-rmse", std::to_string(most), "--method-table",
                        table, "--guidance", guidance, "--workers",
                        std::to_string(devices), "--print-job", "--json"}));
        ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
        const std::size_t begin = outcome.err.find("auto: ") + 6;
        name =
            outcome.err.substr(begin, outcome.err.find(" on ", begin) - begin);
      }
      ASSERT_TRUE(speedups.contains(name)) << name;
      good += speedups[name] >= 0.9 * best ? 1 : 0;
      exact += name == "sequential" || name == "cfg" ? 1 : 0;
    }
  }
  EXPECT_EQ(cases, 100);
  EXPECT_GE(good, 90);
  EXPECT_LT(exact, 50);
  RecordProperty("good", good);
}

/// The hint of a run that was stopped, as arguments.
TEST_F(MaxRmse, GoesOnAsTheHintSays) {
  const std::string folder = path("stopped");
  // The table's default place and number of workers are not named.
  const std::vector<std::string> command = overridden(
      chosen(kAny, {"-n", "400", "-o", folder, "--json"}), {"--workers", "0"});
  Program program(command);
  program.await([&] { return std::filesystem::exists(folder + "/00000.png"); });
  program.signal(SIGTERM);
  const Outcome stopped = program.wait();
  ASSERT_EQ(stopped.exit_code, 75) << stopped.err;
  const std::string begin = "the same command with --exists skip and ";
  const std::string end = " in place of --max-rmse goes on\n";
  const std::size_t at = stopped.err.rfind(begin);
  ASSERT_NE(at, std::string::npos) << stopped.err;
  ASSERT_TRUE(stopped.err.ends_with(end)) << stopped.err;
  std::istringstream words(stopped.err.substr(
      at + begin.size(), stopped.err.size() - at - begin.size() - end.size()));
  std::vector<std::string> again = {"--exists", "skip"};
  for (std::string word; words >> word;) {
    again.push_back(word);
  }
  EXPECT_EQ(again.at(2), "--method");
  std::vector<std::string> next = command;
  const auto most = std::ranges::find(next, "--max-rmse");
  next.erase(most, most + 2);
  const Outcome rest = run(overridden(next, again));
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_EQ(rest.json()["images"][0]["status"], "skipped");
  EXPECT_EQ(rest.json()["images"].size(), 400U);
}

TEST_F(MaxRmse, FreezesItsChoiceInRecordAndRecipe) {
  const std::string first = path("first.png");
  const Outcome outcome = run(chosen(kAny, {"-o", first, "--json"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json result = outcome.json();
  EXPECT_NE(result["method"], "cfg");
  EXPECT_NE(outcome.err.find("auto: " + result["method"].get<std::string>()),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(result["notes"].dump().find("auto: ") != std::string::npos, true);
  const nlohmann::json record =
      run(chosen(kAny, {"--print-job", "--json"})).json();
  EXPECT_EQ(record["method"]["kind"], result["method"]);
  // Without the table, and with other workers.
  const Outcome again = run({"sample", "--from", first, "--workers", "2", "-o",
                             path("again.png"), "--json"},
                            {"TROUPE_MAX_RMSE=0.00001"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.json()["method"], result["method"]);
  EXPECT_EQ(again.json()["latents_xxh3"], result["latents_xxh3"]);
  const Outcome verified = run({"verify", first});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
}

TEST_F(MaxRmse, IsExactWithinNothing) {
  const Outcome outcome = run(chosen("1e-9", {"--json"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["method"], "cfg");
  EXPECT_NE(outcome.err.find("auto: cfg on 4 workers, which is exact: nothing "
                             "within 1e-09 ends sooner"),
            std::string::npos)
      << outcome.err;
  const Outcome other = run(chosen(kAny, {"--steps", "11", "--dry-run"}));
  EXPECT_NE(other.err.find("auto: cfg on 4 workers, from exact methods only: "),
            std::string::npos)
      << other.err;
}

TEST_F(MaxRmse, GoesWithoutAMethodAndWithWholeRuns) {
  const auto refusal = [](const std::vector<std::string>& arguments,
                          const std::string& says) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  };
  const std::string named =
      "[--max-rmse] bounds what --method auto takes, and ";
  refusal(chosen(kAny, {"--method", "draft"}), named + "--method names");
  refusal(chosen(kAny, {"--preset", "asyncdiff"}), named + "--preset names");
  refusal(chosen(kAny, {"--window", "2"}), "[--window]");
  refusal(chosen("0"), "[--max-rmse] got 0, expected more");
  refusal(chosen("nan"), "[--max-rmse]");
  const std::string part = "draws a part of the images";
  for (const std::vector<std::string>& parts :
       {std::vector<std::string>{"--samples", "0:2"},
        {"--samples", "4", "--share", "0/2", "-o", path("parts")},
        {"--exists", "skip", "-o", path("skipped")}}) {
    refusal(guided(overridden(parts, {"--max-rmse", kAny})), part);
    refusal(chosen(kAny, overridden(parts, {"--workers", "0"})), part);
    refusal(chosen(kAny,
                   overridden(parts, {"--listen", "ipc://" + path("link/a")})),
            part);
    const Outcome whole = run(chosen(kAny, overridden(parts, {"--dry-run"})));
    EXPECT_EQ(whole.exit_code, 0) << whole.err;
  }
  EXPECT_EQ(run({"bench", "--random-weights", "dit-tiny", "--max-rmse", "1"})
                .exit_code,
            2);
}

TEST_F(MaxRmse, OfAShareCountsTheWholeRun) {
  const auto method = [](const std::string& share) {
    return run(chosen(kAny, {"--samples", "5", "--share", share, "--print-job",
                             "--json", "-o", path("shares")}))
        .json()["method"];
  };
  EXPECT_EQ(method("0/5"), method("4/5"));
  EXPECT_EQ(method("0/5"),
            run(chosen(kAny, {"--samples", "5", "--print-job", "--json"}))
                .json()["method"]);
}

/// A copy of the demo model, whose table is not there.
class MeasuredModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    made_ = std::make_unique<TempFolder>();
    const Outcome outcome = run(
        {"bench", "methods", "-m", TROUPE_DEMO, "--class", "faces", "--steps",
         "3", "--dtype", "f32", "--emulate", "2", "-n", "8", "--method",
         "draft", "--calibrate", "--out", made_->path("methods.json")});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  }
  static void TearDownTestSuite() { made_.reset(); }

  MeasuredModel() {
    std::filesystem::copy(TROUPE_DEMO, model_.path("model"),
                          std::filesystem::copy_options::recursive);
    std::filesystem::remove(model_.path("model/methods.json"));
  }
  void add_table() const {
    (void)model_.write("model/methods.json", made_->read("methods.json"));
  }
  [[nodiscard]] Outcome sample(const std::vector<std::string>& more) const {
    return run(overridden(
        {"sample", "-m", model_.path("model"), "--class", "faces", "--steps",
         "3", "--dtype", "f32", "--workers", "2", "--threads", "1", "--json"},
        more));
  }

  TempFolder model_;

 private:
  static inline std::unique_ptr<TempFolder> made_;
};

TEST_F(MeasuredModel, StatesTheErrorOfWhatIsNamed) {
  const auto notes = [&](const std::vector<std::string>& more) {
    return sample(overridden({"--dry-run"}, more)).err;
  };
  const std::string lacks =
      "draft approximates, and its error was not measured on this model: ";
  EXPECT_NE(notes({"--method", "draft"}).find(lacks), std::string::npos);
  add_table();
  const std::string known = notes({"--method", "draft"});
  EXPECT_NE(known.find("draft approximates: relative RMSE of latents from the "
                       "sequential run's "),
            std::string::npos)
      << known;
  EXPECT_NE(known.find(" (median of 8 runs), "), std::string::npos) << known;
  EXPECT_NE(notes({"--method", "draft", "--warmup", "2"}).find(lacks),
            std::string::npos);
  for (const std::string method : {"draft+cache", "sequential+cache"}) {
    EXPECT_NE(
        notes({"--method", method})
            .find(method + " approximates, and its error was not measured"),
        std::string::npos);
  }
  EXPECT_EQ(notes({}), "") << "exact";
  (void)model_.write("model/methods.json", "{");
  const Outcome damaged = sample({"--method", "draft", "--dry-run"});
  EXPECT_EQ(damaged.exit_code, 0);
  EXPECT_NE(damaged.err.find(lacks), std::string::npos) << damaged.err;
  EXPECT_EQ(sample({"--max-rmse", "1", "--dry-run"}).exit_code, 6);
}

TEST_F(MeasuredModel, IsReadForMaxRmseAlone) {
  const auto result = [&](const std::vector<std::string>& more) {
    const Outcome outcome = sample(overridden(
        {"--save", "latents=" + model_.path("a.npy"), "--exists", "replace"},
        more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json();
  };
  const nlohmann::json before = result({});
  EXPECT_NE(sample({"--max-rmse", "100", "--dry-run"})
                .err.find("methods.json is not there: troupe bench methods "
                          "--calibrate makes it"),
            std::string::npos);
  add_table();
  const nlohmann::json after = result({});
  EXPECT_EQ(after["method"], "cfg");
  EXPECT_EQ(after["latents_xxh3"], before["latents_xxh3"]);
  EXPECT_EQ(after["execution_class"], before["execution_class"]);
  EXPECT_EQ(result({"--max-rmse", "100", "--guidance", "1"})["method"],
            "sequential")
      << "other guidance than that of the table";
  EXPECT_EQ(result({"--max-rmse", "100", "--workers", "3"})["method"], "cfg")
      << "as fast";
  nlohmann::json table =
      nlohmann::json::parse(model_.read("model/methods.json"));
  table["weights_xxh3"] = "0123456789abcdef";
  (void)model_.write("model/methods.json", table.dump());
  const Outcome foreign = sample({"--max-rmse", "100", "--dry-run"});
  EXPECT_EQ(foreign.exit_code, 0) << foreign.err;
  EXPECT_NE(
      foreign.err.find("auto: cfg on 2 workers, from exact methods only: "),
      std::string::npos)
      << foreign.err;
}

TEST(Calibration, KeepsFiguresOfOtherRunsInTheTable) {
  const TempFolder folder;
  const auto calibrate = [&](const std::vector<std::string>& more) {
    std::filesystem::remove_all(folder.path("out"));
    return run(overridden({"bench", "methods", "--random-weights", "dit-tiny",
                           "--class", "1", "--steps", "8", "--dtype", "f32",
                           "--emulate", "2", "-n", "2", "--method", "draft",
                           "--calibrate", "--out", folder.path("out.json")},
                          more))
        .exit_code;
  };
  const auto found = [&] {
    std::multiset<std::string> all;
    const auto table = nlohmann::json::parse(folder.read("out.json"));
    for (const nlohmann::json& figure : table["methods"]) {
      all.insert(figure["name"].get<std::string>() + " " +
                 std::to_string(figure["steps"].get<int>()) + " " +
                 figure["runs"].dump());
    }
    return all;
  };
  ASSERT_EQ(calibrate({}), 0);
  const std::multiset<std::string> first = found();
  EXPECT_TRUE(first.contains("draft --window 2 8 2"));
  ASSERT_EQ(calibrate({"--steps", "9"}), 0);
  EXPECT_EQ(found().size(), 2 * first.size());
  ASSERT_EQ(calibrate({"-n", "1"}), 0);
  EXPECT_EQ(found().size(), 2 * first.size());
  EXPECT_TRUE(found().contains("draft --window 2 8 1"));
  EXPECT_TRUE(found().contains("draft --window 2 9 2"));
  (void)folder.write("out.json", "{}");
  EXPECT_EQ(calibrate({}), 6) << "no table: it is not written over";
  EXPECT_EQ(folder.read("out.json"), "{}");
}

}  // namespace
}  // namespace troupe::test

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

/// A run that would take minutes.
std::vector<std::string> long_run(const TempFolder& folder) {
  return tiny_sample({"--steps", "100", "-n", "4000", "-o", folder.path(),
                      "--exists", "skip", "--json"});
}

/// Waits until the run has written an image.
void await_image(const Program& program, const TempFolder& folder) {
  const auto is_image = [](const std::string& name) {
    return name.ends_with(".png") && !name.starts_with(".");
  };
  program.await([&] {
    const std::vector<std::string> names = folder.names();
    return std::any_of(names.begin(), names.end(), is_image);
  });
}

class Stopping : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(Stopping, KeepsFinishedImagesAndSaysHowToGoOn) {
  const auto [number, code] = GetParam();
  const TempFolder folder;
  Program program(long_run(folder));
  await_image(program, folder);
  program.signal(number);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, code) << outcome.err;
  EXPECT_NE(outcome.err.find("the same command goes on"), std::string::npos)
      << outcome.err;
  const nlohmann::json json = outcome.json();
  EXPECT_EQ(json["status"], "stopped");
  EXPECT_EQ(json["error"]["retryable"], true);
  // Whole images, and nothing half written beside them.
  std::vector<std::string> listed;
  for (const auto& image : json["images"]) {
    if (image["status"] == "done") {
      listed.push_back(
          std::filesystem::path(image["path"].get<std::string>()).filename());
    }
  }
  EXPECT_EQ(folder.names(), listed);
  EXPECT_FALSE(listed.empty());
  EXPECT_LT(listed.size(), 4000U);
}

INSTANTIATE_TEST_SUITE_P(Signals, Stopping,
                         testing::Values(std::pair{SIGTERM, 75},
                                         std::pair{SIGHUP, 75},
                                         std::pair{SIGINT, 130}));

TEST(Stopping, NamesACommandThatGoesOn) {
  struct Case {
    std::vector<std::string> exists;
    std::string hint;
  };
  for (const Case& c :
       {Case{{}, "the same command with --exists skip goes on\n"},
        Case{{"--exists", "skip"}, "the same command goes on\n"},
        Case{{"--exists", "replace"},
             "the same command with --exists skip in place of replace goes "
             "on\n"}}) {
    const TempFolder folder;
    const auto command = [&](const std::vector<std::string>& exists) {
      return overridden(tiny_sample({"--steps", "100", "-n", "40", "-o",
                                     folder.path(), "--json"}),
                        exists);
    };
    Program program(command(c.exists));
    await_image(program, folder);
    program.signal(SIGTERM);
    const Outcome outcome = program.wait();
    ASSERT_EQ(outcome.exit_code, 75) << outcome.err;
    EXPECT_TRUE(outcome.err.ends_with("; " + c.hint)) << outcome.err;
    if (!c.exists.empty()) {
      continue;  // one command that goes on is enough
    }
    const Outcome again = run(command({"--exists", "skip"}));
    ASSERT_EQ(again.exit_code, 0) << again.err;
    // What the stopped run finished is not drawn again.
    const nlohmann::json after = again.json();
    ASSERT_EQ(after["images"].size(), 40U);
    for (const nlohmann::json& image : outcome.json()["images"]) {
      if (image["status"] == "done") {
        EXPECT_EQ(after["images"][image["index"].get<std::size_t>()]["status"],
                  "skipped")
            << image;
      }
    }
    EXPECT_EQ(folder.names().size(), 40U);
  }
}

TEST(Stopping, EndsTheLoadingAndStillSaysSoInJson) {
  for (const auto& [number, code] :
       {std::pair{SIGTERM, 75}, std::pair{SIGINT, 130}}) {
    const TempFolder folder;
    Program program({"sample", "--random-weights", "dit-b-2", "--steps", "1000",
                     "--class", "1", "-n", "2", "-o", folder.path("out"),
                     "--json", "--progress", "none"});
    // It loads once the folder is made.
    program.await([&] { return !folder.names().empty(); });
    program.signal(number);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.exit_code, code) << outcome.err;
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    EXPECT_EQ(outcome.json()["status"], "stopped");
    EXPECT_EQ(outcome.json()["exit_code"], code);
    EXPECT_TRUE(folder.names().empty()) << "the empty folder stayed";
  }
}

TEST(Stopping, WritesWhatIsSmallAndSaysWhatItLeftOut) {
  const TempFolder folder;
  const TempFolder more;
  std::vector<std::string> arguments = long_run(folder);
  arguments.insert(arguments.end(), {"--grid", more.path("grid.png"), "--trace",
                                     more.path("trace.json"), "--save",
                                     "latents=" + more.path("latents.npz")});
  Program program(arguments);
  await_image(program, folder);
  program.signal(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 130) << outcome.err;
  EXPECT_NE(outcome.err.find("; --grid was not written; "), std::string::npos)
      << outcome.err;
  EXPECT_EQ(more.names(),
            (std::vector<std::string>{"latents.npz", "trace.json"}));
}

TEST(Stopping, AKilledRunGoesOn) {
  const TempFolder disturbed;
  const TempFolder undisturbed;
  const auto arguments = [](const TempFolder& folder) {
    return tiny_sample({"--steps", "40", "-n", "6", "-o", folder.path(),
                        "--exists", "skip", "--class", "1"});
  };
  {
    Program program(arguments(disturbed));
    await_image(program, disturbed);
    program.signal(SIGKILL);
    (void)program.wait();
  }
  ASSERT_EQ(run(arguments(disturbed)).exit_code, 0);
  ASSERT_EQ(run(arguments(undisturbed)).exit_code, 0);
  expect_files_of(undisturbed, disturbed);
}

TEST(Stopping, AResumedRunMakesTheBytesOfAnUndisturbedOne) {
  const TempFolder disturbed;
  const TempFolder undisturbed;
  const auto arguments = [](const TempFolder& folder) {
    return tiny_sample(
        {"--steps", "40", "-n", "6", "-o", folder.path(), "--exists", "skip"});
  };
  {
    Program program(arguments(disturbed));
    await_image(program, disturbed);
    program.signal(SIGTERM);
    (void)program.wait();
  }
  ASSERT_EQ(run(arguments(disturbed)).exit_code, 0);
  ASSERT_EQ(run(arguments(undisturbed)).exit_code, 0);
  ASSERT_EQ(undisturbed.names().size(), 6U);
  EXPECT_EQ(disturbed.names(), undisturbed.names());
  expect_files_of(undisturbed, disturbed);
}

}  // namespace
}  // namespace troupe::test

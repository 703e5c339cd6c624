#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

using std::chrono::microseconds;

/// What every run must end with, whenever a signal came.
void expect_one_end(const Outcome& outcome, const std::string& what) {
  SCOPED_TRACE(what + ": exit code " + std::to_string(outcome.exit_code) +
               "\nstdout: " + outcome.out + "\nstderr: " + outcome.err);
  ASSERT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
  const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["exit_code"], outcome.exit_code);
  if (outcome.exit_code == 0) {
    EXPECT_EQ(outcome.err, "");
    return;
  }
  EXPECT_EQ(json["status"], "stopped");
  EXPECT_EQ(outcome.err_lines(), 1);
  EXPECT_TRUE(outcome.err.starts_with("troupe: ["));
}

/// Whether the program has begun: it keeps signals back from then on. Before,
/// it is the loader that runs, and the system ends it.
bool has_begun(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigBlk:")) {
      const auto blocked = std::stoull(line.substr(7), nullptr, 16);
      return (blocked >> (SIGTERM - 1) & 1U) != 0;
    }
  }
  return false;
}

struct Way {
  const char* name;
  std::vector<int> signals;
  int exit_code;
};

class Ending : public testing::TestWithParam<Way> {};

TEST_P(Ending, IsOneObjectAndOneLineWheneverTheSignalComes) {
  const Way& way = GetParam();
  constexpr int kTrials = 20;
  constexpr int kLongest = 150'000;  // of a run, in microseconds
  std::minstd_rand random(std::random_device{}());
  int stopped = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const TempFolder folder;
    Program program(
        tiny_sample({"-n", "3", "--class", "1", "-o", folder.path("out"),
                     "--json", "--progress", "none"}));
    program.await([&] { return has_begun(program.pid()); });
    // As many early ones as late ones: squared, most are early.
    const double part = std::uniform_real_distribution<>(0, 1)(random);
    std::this_thread::sleep_for(
        microseconds(static_cast<int>(part * part * kLongest)));
    for (std::size_t i = 0; i < way.signals.size(); ++i) {
      if (i > 0) {
        std::this_thread::sleep_for(microseconds(random() % 20'000));
      }
      program.signal(way.signals[i]);
    }
    const Outcome outcome = program.wait();
    expect_one_end(outcome,
                   std::string(way.name) + ", trial " + std::to_string(trial));
    if (testing::Test::HasFatalFailure()) {
      return;
    }
    EXPECT_TRUE(outcome.exit_code == 0 || outcome.exit_code == way.exit_code)
        << outcome.exit_code;
    stopped += outcome.exit_code != 0 ? 1 : 0;
  }
  EXPECT_GT(stopped, 0) << "no signal came in time: nothing was tested";
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Ending,
    testing::Values(Way{"interrupt", {SIGINT}, 130},
                    Way{"two interrupts", {SIGINT, SIGINT}, 130},
                    Way{"terminate", {SIGTERM}, 75},
                    Way{"user signal", {SIGUSR1}, 75}),
    [](const auto& param) { return std::to_string(param.index); });

TEST(Ending, ASecondInterruptStillSaysHowItEnded) {
  const TempFolder folder;
  Program program({"sample", "--random-weights", "dit-b-2", "--steps", "1000",
                   "--class", "1", "--dtype", "f32", "-n", "2", "-o",
                   folder.path("out"), "--json", "--progress", "none"});
  program.await([&] { return !folder.names().empty(); });
  program.signal(SIGINT);
  program.signal(SIGINT);
  expect_one_end(program.wait(), "two interrupts while it loads");
}

TEST(Ending, OfOtherVerbsIsTheSame) {
  for (int trial = 0; trial < 20; ++trial) {
    Program program({"bench", "--random-weights", "dit-tiny", "--steps", "100",
                     "--class", "1", "--json", "--progress", "none"});
    program.await([&] { return has_begun(program.pid()); });
    std::this_thread::sleep_for(microseconds(trial * 4000));
    program.signal(SIGTERM);
    expect_one_end(program.wait(), "bench, trial " + std::to_string(trial));
  }
}

TEST(Ending, AReaderWhoNeverComesDoesNotKeepItAlive) {
  // Nobody reads, and the program is stuck in its last word until a signal says
  // that it is not wanted.
  std::vector<std::string> arguments = {"inspect", "--json"};
  arguments.resize(
      200, TROUPE_GOLDEN "/dit_default/diffusion_pytorch_model.safetensors");
  Program program(arguments);
  constexpr int kMostOfAPipe = 60'000;
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (program.unread() < kMostOfAPipe) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait_unread(), 75);
}

TEST(IgnoredSignals, StayIgnored) {
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    const TempFolder folder;
    Program program(
        tiny_sample({"-n", "2", "--class", "1", "--steps", "20", "-o",
                     folder.path("out"), "--json", "--progress", "none"}),
        {}, {.ignored = {number}});
    program.await([&] { return !folder.names().empty(); });
    for (int i = 0; i < 3; ++i) {
      program.signal(number);
    }
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.exit_code, 0) << number << outcome.err;
    EXPECT_EQ(outcome.json()["images"].size(), 2U);
  }
}

TEST(IgnoredSignals, LeaveTheOthersHeard) {
  const TempFolder folder;
  Program program(
      tiny_sample({"-n", "4000", "--class", "1", "-o", folder.path("out"),
                   "--json", "--progress", "none"}),
      {}, {.ignored = {SIGINT}});
  program.await([&] { return !folder.names().empty(); });
  program.signal(SIGINT);
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait().exit_code, 75);
}

}  // namespace
}  // namespace troupe::test

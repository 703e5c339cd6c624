#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

/// A run that would take minutes and writes all the time.
std::vector<std::string> long_run(const std::string& out) {
  return tiny_sample({"-n", "4000", "-o", out, "--exists", "skip"});
}

std::optional<std::string> temporary_in(const TempFolder& folder) {
  for (const std::string& name : folder.names()) {
    if (name.starts_with(".troupe-")) {
      return name;
    }
  }
  return std::nullopt;
}

/// Kills runs until one leaves a half-written file behind, and names it.
std::string leave_half_a_file(const TempFolder& folder) {
  for (;;) {
    Program program(long_run(folder.path()));
    while (!temporary_in(folder)) {
      std::this_thread::yield();
    }
    program.signal(SIGKILL);
    (void)program.wait();
    if (const auto name = temporary_in(folder)) {
      return *name;
    }
  }
}

TEST(OutputFolder, IsRidOfWhatAKilledRunLeft) {
  const TempFolder folder;
  const std::string left = leave_half_a_file(folder);
  // The same of another machine, whose processes nobody here can see.
  const std::string other =
      ".troupe-elsewhere" + left.substr(left.find('-', 8));
  (void)folder.write(other, "half");
  const auto arguments = [&](std::vector<std::string> more) {
    more.insert(more.end(),
                {"-n", "2", "-o", folder.path(), "--exists", "skip"});
    return tiny_sample(std::move(more));
  };
  ASSERT_EQ(run(arguments({"--dry-run"})).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder.path(left)));
  const Outcome outcome = run(arguments({}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(folder.path(left)));
  EXPECT_TRUE(std::filesystem::exists(folder.path(other)));
}

}  // namespace
}  // namespace troupe::test

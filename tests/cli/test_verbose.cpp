#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

TEST(Verbose, SaysWhatWasChosenAndWhy) {
  const Outcome loud = run(tiny_sample(
      {"-v", "--progress", "none", "--save", "latents=/dev/null/x.npz"}));
  EXPECT_EQ(loud.exit_code, 2) << "found before the weights are loaded";
  for (const char* part :
       {"info sampler: ddim, 4 steps",
        "info method: cfg on 2 workers × 1 thread", "share them",
        "info arithmetic: f32 by ", "info memory: "}) {
    EXPECT_NE(loud.err.find(part), std::string::npos) << part << loud.err;
  }
  EXPECT_EQ(loud.err.find("info model: "), std::string::npos);
}

TEST(Verbose, TellsHowLongLoadingTookAndNothingOnStdout) {
  const TempFolder folder;
  const std::vector<std::string> arguments = {
      "--progress",         "none",     "--json", "-o",
      folder.path("a.png"), "--exists", "replace"};
  std::vector<std::string> verbose = arguments;
  verbose.emplace_back("-v");
  const Outcome loud = run(tiny_sample(verbose));
  ASSERT_EQ(loud.exit_code, 0) << loud.err;
  EXPECT_NE(loud.err.find("info model: dit-tiny loaded in "), std::string::npos)
      << loud.err;
  EXPECT_EQ(std::count(loud.out.begin(), loud.out.end(), '\n'), 1);
  EXPECT_EQ(run(tiny_sample(arguments)).err.find("info"), std::string::npos);
}

TEST(Verbose, NamesTheSchedulersFile) {
  const TempFolder folder;
  ASSERT_EQ(run(tiny_sample({"-o", folder.path("a.png")})).exit_code, 0);
  const Outcome bundled = run(tiny_sample({"-v", "--dry-run"}));
  EXPECT_NE(bundled.err.find("from what is bundled with dit-tiny"),
            std::string::npos)
      << bundled.err;
  const Outcome recipe =
      run({"sample", "--from", folder.path("a.png"), "-v", "--dry-run"});
  EXPECT_NE(recipe.err.find("from the recipe of the image"), std::string::npos)
      << recipe.err;
}

}  // namespace
}  // namespace troupe::test

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "actors/artefacts/output_paths.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

const config::SampleRange kOne{0, 1};
const config::SampleRange kMany{3, 9};

TEST(OutputPaths, TakesOneFileForOneSample) {
  EXPECT_EQ(OutputPaths("a/b.png", kOne).path(0), "a/b.png");
  EXPECT_EQ(OutputPaths("b.png", kOne).folder(), ".");
}

TEST(OutputPaths, NumbersFilesInAFolderByGlobalIndex) {
  EXPECT_EQ(OutputPaths("out", kMany).path(3), "out/00003.png");
  EXPECT_EQ(OutputPaths("out/", kOne).path(123456), "out/123456.png");
}

TEST(OutputPaths, FillsPatterns) {
  EXPECT_EQ(OutputPaths("x-{index:05}.png", kMany).path(42), "x-00042.png");
  EXPECT_EQ(OutputPaths("x-{index}.png", kMany).path(42), "x-42.png");
}

TEST(OutputPaths, RefusesWhatWouldOverwriteOrRename) {
  for (const char* bad :
       {"one.png", "x-{index:5}.png", "x-{index:0}.png", "x-{seed}.png",
        "x-{index.png", "{index}/{index}.png", "x-{index:099}.png", "out.jpg",
        "{index}/a.png", ".png", "out/.png"}) {
    EXPECT_THROW(OutputPaths(bad, kMany), Error) << bad;
  }
}

TEST(OutputPaths, MakesTheFolderButNotItsParents) {
  const auto root = std::filesystem::temp_directory_path() /
                    ("troupe_paths_" + std::to_string(::getpid()));
  std::filesystem::create_directory(root);
  {
    const auto made = OutputPaths((root / "new").string(), kMany).prepare();
    EXPECT_NE(made, nullptr);
    EXPECT_TRUE(std::filesystem::is_directory(root / "new"));
  }
  EXPECT_THROW((void)OutputPaths((root / "no/such").string(), kMany).prepare(),
               Error);
  std::filesystem::remove_all(root);
}

TEST(OutputPaths, TakeAFolderAwayThatTheyMadeForNothing) {
  const auto root = std::filesystem::temp_directory_path() /
                    ("troupe_new_" + std::to_string(::getpid()));
  const OutputPaths paths(root.string(), kMany);
  (void)paths.prepare();
  EXPECT_FALSE(std::filesystem::exists(root));
  {
    const auto made = paths.prepare();
    paths.write(3, {});
  }
  EXPECT_TRUE(std::filesystem::exists(root / "00003.png"));
  std::filesystem::remove(root / "00003.png");
  EXPECT_EQ(paths.prepare(), nullptr) << "it was there";
  EXPECT_TRUE(std::filesystem::exists(root));
  // Another run that had made it may take it away while this one works.
  std::filesystem::remove(root);
  paths.write(4, {});
  EXPECT_TRUE(std::filesystem::exists(root / "00004.png"));
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace troupe::actors

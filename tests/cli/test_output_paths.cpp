#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <utility>

#include "actors/artefacts/output_paths.h"
#include "kernels/core/error.h"
#include "kernels/core/system/disk.h"
#include "tests/core/temporary_folder.h"

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
    OutputPaths paths((root / "new").string(), kMany);
    paths.prepare();
    EXPECT_TRUE(std::filesystem::is_directory(root / "new"));
    OutputPaths file((root / "other/x.png").string(), kOne);
    file.prepare();
    EXPECT_TRUE(std::filesystem::is_directory(root / "other"));
  }
  EXPECT_FALSE(std::filesystem::exists(root / "other")) << "nothing is in it";
  EXPECT_THROW(OutputPaths((root / "no/such/x.png").string(), kOne).prepare(),
               Error);
  EXPECT_THROW(OutputPaths((root / "no/such").string(), kMany).prepare(),
               Error);
  std::filesystem::remove_all(root);
}

TEST(OutputPaths, TakeAFolderAwayThatTheyMadeForNothing) {
  const auto root = std::filesystem::temp_directory_path() /
                    ("troupe_new_" + std::to_string(::getpid()));
  OutputPaths(root.string(), kMany).prepare();
  EXPECT_FALSE(std::filesystem::exists(root));
  {
    OutputPaths paths(root.string(), kMany);
    paths.prepare();
    EXPECT_TRUE(paths.write(3, {}));
  }
  EXPECT_TRUE(std::filesystem::exists(root / "00003.png"));
  std::filesystem::remove(root / "00003.png");
  OutputPaths(root.string(), kMany).prepare();
  EXPECT_TRUE(std::filesystem::exists(root)) << "it was there";
  // Another run, which made the folder, may remove the folder during this run.
  OutputPaths paths(root.string(), kMany);
  paths.prepare();
  std::filesystem::remove(root);
  EXPECT_TRUE(paths.write(4, {}));
  EXPECT_TRUE(std::filesystem::exists(root / "00004.png"));
  std::filesystem::remove_all(root);
}

/// The run that made the folder removes it, as long as no picture is in it.
TEST(OutputPaths, OfSingleFilesMayShareANewFolder) {
  const auto root = std::filesystem::temp_directory_path() /
                    ("troupe_shared_" + std::to_string(::getpid()));
  auto maker = std::make_unique<OutputPaths>((root / "a.png").string(), kOne);
  OutputPaths other((root / "b.png").string(), kOne);
  maker->prepare();
  other.prepare();
  maker.reset();
  EXPECT_FALSE(std::filesystem::exists(root));
  EXPECT_TRUE(other.write(0, {}));
  EXPECT_TRUE(std::filesystem::exists(root / "b.png"));
  std::filesystem::remove_all(root);
}

/// Of several names, and of several ranges of one name.
TEST(OutputPaths, OfOneNameHaveEachSampleOnce) {
  const TemporaryFolder root;
  const auto lock = [&](const std::string& out, std::uint64_t begin,
                        std::uint64_t end) {
    auto paths = std::make_unique<OutputPaths>((root.path() / out).string(),
                                               config::SampleRange{begin, end});
    paths->prepare();
    return paths->try_lock({begin, end}) ? std::move(paths) : nullptr;
  };
  auto first = lock("out", 0, 8);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(lock("out", 7, 9), nullptr);
  EXPECT_EQ(lock("out/", 0, 1), nullptr);
  EXPECT_NE(lock("out", 8, 16), nullptr);
  EXPECT_NE(lock("out/{index}.png", 0, 8), nullptr) << "other names";
  const auto one = lock("out/one.png", 0, 1);
  EXPECT_NE(one, nullptr);
  EXPECT_EQ(lock("out/one.png", 5, 6), nullptr) << "it is one file";
  first.reset();
  EXPECT_NE(lock("out", 7, 9), nullptr);
  EXPECT_TRUE(std::filesystem::exists(root.path() / "out/.troupe.lock"));
}

/// A folder of its own, with an output folder "out" in it.
class MovedFolder : public testing::Test {
 protected:
  MovedFolder() : out_(root_.path() / "out"), paths_(out_.string(), kMany) {}

  /// What writing the next image says; empty if it succeeds.
  std::string complaint(std::uint64_t index) {
    try {
      EXPECT_TRUE(paths_.write(index, {}));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::job_failed) << error.what();
      return error.what();
    }
    return {};
  }

  TemporaryFolder root_;
  std::filesystem::path out_;
  OutputPaths paths_;
};

TEST_F(MovedFolder, IsNoticedAndNotMadeAgain) {
  paths_.prepare();
  EXPECT_EQ(complaint(3), "");
  std::filesystem::rename(out_, root_.path() / "elsewhere");
  EXPECT_THAT(complaint(4), testing::HasSubstr("moved away while the job ran, "
                                               "with 1 image of it, to "));
  EXPECT_THAT(complaint(4), testing::HasSubstr("/elsewhere"));
  EXPECT_FALSE(std::filesystem::exists(out_));
  EXPECT_THROW(paths_.check_folder(), Error);
  std::filesystem::rename(root_.path() / "elsewhere", out_);
  EXPECT_EQ(complaint(4), "");
}

TEST_F(MovedFolder, IsToldFromAnotherOfItsName) {
  paths_.prepare();
  std::filesystem::rename(out_, root_.path() / "elsewhere");
  std::filesystem::create_directory(out_);
  EXPECT_THAT(complaint(3), testing::HasSubstr("moved away"));
  paths_ = OutputPaths("elsewhere.png", kOne);  // lets go of the folder
  EXPECT_TRUE(std::filesystem::exists(out_)) << "it is somebody else's";
}

TEST_F(MovedFolder, IsMissedOnceItHeldAnImage) {
  paths_.prepare();
  paths_.set_there(1);
  std::filesystem::remove_all(out_);
  std::filesystem::create_directory(out_);
  EXPECT_THAT(complaint(3), testing::HasSubstr("was removed"));
  EXPECT_TRUE(std::filesystem::is_empty(out_));
}

/// A file of the disk. When it has its name, `then` runs.
class NamedFile final : public Disk::File {
 public:
  NamedFile(std::unique_ptr<Disk::File> file, std::function<void()> then)
      : file_(std::move(file)), then_(std::move(then)) {}
  void sync() override { file_->sync(); }
  bool try_publish() override {
    const bool is_published = file_->try_publish();
    then_();
    return is_published;
  }
  [[nodiscard]] std::filesystem::path folder() const override {
    return file_->folder();
  }

 private:
  std::unique_ptr<Disk::File> file_;
  std::function<void()> then_;
};

TEST_F(MovedFolder, IsMissedAsSoonAsItHeldAnImage) {
  paths_.prepare();
  const auto removed = testing::Property(
      &Error::what, testing::HasSubstr("was removed while the job ran"));
  NamedFile file(paths_.put(system_disk(), 3, {}, {}), [&] {
    std::filesystem::remove_all(out_);
    // What another thread does at this moment.
    EXPECT_THAT([&] { (void)paths_.put(system_disk(), 4, {}, {}); },
                testing::Throws<Error>(removed));
  });
  file.sync();
  EXPECT_THAT([&] { (void)paths_.publish(file); },
              testing::Throws<Error>(removed));
  EXPECT_FALSE(std::filesystem::exists(out_));
}

}  // namespace
}  // namespace troupe::actors

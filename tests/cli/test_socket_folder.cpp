// Folders of local sockets: nothing is left, and nothing of others is removed.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "actors/cli/peer_options.h"
#include "tests/core/temporary_folder.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

/// In a folder of its own for temporary files.
class SocketFolders : public testing::Test {
 protected:
  SocketFolders() { ::setenv("TMPDIR", folder_.path().c_str(), 1); }
  ~SocketFolders() override {
    if (before_.empty()) {
      ::unsetenv("TMPDIR");
    } else {
      ::setenv("TMPDIR", before_.c_str(), 1);
    }
  }

  [[nodiscard]] fs::path among() const { return folder_.path(); }
  /// As `make` does, and what a hub puts there.
  [[nodiscard]] fs::path add_leftover(const std::string& name,
                                      fs::perms perms = fs::perms::owner_all) {
    const fs::path path = among() / name;
    fs::create_directory(path);
    fs::permissions(path, perms);
    std::ofstream(path / "values");
    std::ofstream(path / "values.lock");
    return path;
  }

 private:
  static std::string text_of(const char* value) {
    return value == nullptr ? "" : value;
  }

  std::string before_ = text_of(std::getenv("TMPDIR"));
  TemporaryFolder folder_;
};

TEST_F(SocketFolders, AreOursAloneAndGoWithTheObject) {
  fs::path path;
  {
    SocketFolder made = SocketFolder::make();
    path = made.path();
    EXPECT_EQ(path.parent_path(), among());
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    EXPECT_EQ(made.endpoint(), "ipc://" + made.path() + "/values");
    std::ofstream(path / "values");
    std::ofstream(path / "values.lock");
    const SocketFolder moved = std::move(made);
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(SocketFolders, AreThereUntilTheirProcessEnds) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const SocketFolder made = SocketFolder::make();
    std::ofstream(made.path() + "/values");
    (void)!::write(pipe[1], made.path().data(), made.path().size());
    ::pause();
    ::_exit(0);
  }
  std::array<char, 256> read{};
  const auto count = ::read(pipe[0], read.data(), read.size());
  ASSERT_GT(count, 0);
  const std::string path(read.data(), static_cast<std::size_t>(count));
  (void)SocketFolder::make();
  EXPECT_TRUE(fs::exists(path + "/values")) << "its process lives";
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(fs::exists(path));
  (void)SocketFolder::make();
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(SocketFolders, RemoveNothingElse) {
  const fs::path left = add_leftover("troupe-peer-abcdef");
  const fs::path other_name = add_leftover("troupe-abcdef");
  const fs::path longer = add_leftover("troupe-peer-abcdefg");
  const fs::path open = add_leftover(
      "troupe-peer-opened", fs::perms::owner_all | fs::perms::others_read);
  const fs::path with_more = add_leftover("troupe-peer-others");
  std::ofstream(with_more / "notes");
  const fs::path file = among() / "troupe-peer-a_file";
  std::ofstream(file.c_str());
  const fs::path elsewhere = add_leftover("elsewhere");
  fs::create_directory_symlink(elsewhere, among() / "troupe-peer-a_link");
  (void)SocketFolder::make();
  EXPECT_FALSE(fs::exists(left));
  for (const fs::path& path : {other_name, longer, open, elsewhere}) {
    EXPECT_TRUE(fs::exists(path / "values")) << path;
  }
  EXPECT_TRUE(fs::exists(with_more / "notes"));
  EXPECT_TRUE(fs::exists(file));
}

TEST_F(SocketFolders, AreNotThereWhereNoneCanBeMade) {
  ::setenv("TMPDIR", (among() / "none").c_str(), 1);
  EXPECT_TRUE(SocketFolder::make().path().empty());
}

}  // namespace
}  // namespace troupe::actors

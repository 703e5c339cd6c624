#include "kernels/core/system/atomic_file.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "kernels/core/error.h"
#include "kernels/core/system/disk.h"
#include "temporary_folder.h"

namespace {
/// What the file system under test cannot do.
bool lacks_exclusive_rename = false;
bool lacks_links = false;
}  // namespace

// Instead of the C library's, so that one machine shows several file systems.
extern "C" int renameat2(int from_folder, const char* from, int to_folder,
                         const char* to, unsigned int flags) noexcept {
  if (lacks_exclusive_rename) {
    errno = EINVAL;
    return -1;
  }
  using Function = int (*)(int, const char*, int, const char*, unsigned int);
  static const auto kReal =
      reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "renameat2"));
  return kReal(from_folder, from, to_folder, to, flags);
}

extern "C" int link(const char* from, const char* to) noexcept {
  if (lacks_links) {
    errno = EPERM;
    return -1;
  }
  using Function = int (*)(const char*, const char*);
  static const auto kReal =
      reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "link"));
  return kReal(from, to);
}

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Whether the file appeared; not if one that must stay is there.
bool try_write_file(const fs::path& path, std::span<const std::byte> bytes,
                    const FileRule& rule) {
  AtomicFile file(path, rule);
  file.write(bytes);
  file.sync();
  return file.try_publish();
}

template <typename Fn>
std::optional<Error> error_of(const Fn& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

class AtomicFileTest : public testing::Test {
 protected:
  [[nodiscard]] fs::path in(const std::string& name) const {
    return folder_.path() / name;
  }
  [[nodiscard]] std::size_t num_entries() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& e :
         fs::directory_iterator(folder_.path())) {
      ++count;
    }
    return count;
  }
  TemporaryFolder folder_;
};

TEST_F(AtomicFileTest, AppearsWholeOnCommit) {
  AtomicFile file(in("a.bin"));
  file.write(bytes_of("hello "));
  file.write(bytes_of("world"));
  EXPECT_FALSE(fs::exists(in("a.bin")));
  file.commit();
  EXPECT_EQ(read_file(in("a.bin"), 100), "hello world");
  EXPECT_EQ(num_entries(), 1U);
}

TEST_F(AtomicFileTest, LeavesNothingWithoutCommit) {
  {
    AtomicFile file(in("a.bin"));
    file.write(bytes_of("half"));
  }
  EXPECT_EQ(num_entries(), 0U);
}

TEST_F(AtomicFileTest, APrivateFileIsItsOwnersFromTheFirstByte) {
  write_file(in("a.key"), bytes_of("old"));
  ASSERT_EQ(::chmod(in("a.key").c_str(), 0644), 0);
  FileRule rule;
  rule.is_private = true;
  AtomicFile file(in("a.key"), rule);
  file.write(bytes_of("new"));
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    if (entry.path() != in("a.key")) {
      EXPECT_EQ(entry.status().permissions(), fs::perms{0600});
    }
  }
  EXPECT_EQ(num_entries(), 2U);
  file.commit();
  EXPECT_EQ(fs::status(in("a.key")).permissions(), fs::perms{0600});
  EXPECT_EQ(read_file(in("a.key"), 100), "new");
}

TEST_F(AtomicFileTest, KeepsTheOldFileUntilCommit) {
  write_file(in("a.txt"), bytes_of("old"));
  {
    AtomicFile file(in("a.txt"));
    file.write(bytes_of("new"));
    EXPECT_EQ(read_file(in("a.txt"), 100), "old");
  }
  EXPECT_EQ(read_file(in("a.txt"), 100), "old");
  write_file(in("a.txt"), bytes_of("new"));
  EXPECT_EQ(read_file(in("a.txt"), 100), "new");
}

TEST_F(AtomicFileTest, AppearsByStepsOnlyWhenItIsPublished) {
  Disk& disk = system_disk();
  const auto file = disk.create(in("a"), bytes_of("new"), {});
  const auto other = disk.create(in("a"), bytes_of("old"), IfThere::refuse);
  file->sync();
  other->sync();
  EXPECT_FALSE(fs::exists(in("a")));
  EXPECT_TRUE(file->try_publish());
  EXPECT_EQ(read_file(in("a"), 100), "new");
  EXPECT_FALSE(other->try_publish());
  EXPECT_TRUE(fs::equivalent(file->folder(), folder_.path()));
  disk.sync_folder(file->folder());
  EXPECT_EQ(num_entries(), 1U);
}

TEST_F(AtomicFileTest, KeepsThePermissionsOfAReplacedFile) {
  write_file(in("a.txt"), bytes_of("old"));
  ASSERT_EQ(::chmod(in("a.txt").c_str(), 0640), 0);
  write_file(in("a.txt"), bytes_of("new"));
  EXPECT_EQ(fs::status(in("a.txt")).permissions(), fs::perms{0640});
}

TEST_F(AtomicFileTest, FollowsALink) {
  write_file(in("real"), bytes_of("old"));
  fs::create_symlink("real", in("link"));
  write_file(in("link"), bytes_of("new"));
  EXPECT_TRUE(fs::is_symlink(in("link")));
  EXPECT_EQ(read_file(in("real"), 100), "new");
}

TEST_F(AtomicFileTest, FollowsLinksToWhatIsNotThereYet) {
  fs::create_directory(in("sub"));
  fs::create_symlink("sub/middle", in("link"));
  fs::create_symlink(in("real"), in("sub/middle"));
  check_writable(in("link"));
  write_file(in("link"), bytes_of("new"));
  EXPECT_TRUE(fs::is_symlink(in("link")));
  EXPECT_TRUE(fs::is_symlink(in("sub/middle")));
  EXPECT_EQ(read_file(in("real"), 100), "new");
}

TEST_F(AtomicFileTest, RefusesLinksThatNeverEnd) {
  fs::create_symlink("other", in("one"));
  fs::create_symlink("one", in("other"));
  EXPECT_EQ(error_of([&] { write_file(in("one"), bytes_of("x")); })->code(),
            Errc::io);
}

TEST_F(AtomicFileTest, TwoWritersOfOneFolderDoNotMeet) {
  AtomicFile first(in("a"));
  AtomicFile second(in("b"));
  first.write(bytes_of("1"));
  second.write(bytes_of("2"));
  second.commit();
  first.commit();
  EXPECT_EQ(read_file(in("a"), 9), "1");
  EXPECT_EQ(read_file(in("b"), 9), "2");
}

TEST_F(AtomicFileTest, KeepsWhatCameMeanwhileWhereItMust) {
  AtomicFile first(in("a"), IfThere::refuse);
  AtomicFile second(in("a"), IfThere::refuse);
  first.write(bytes_of("first"));
  second.write(bytes_of("second"));
  first.commit();
  const auto error = error_of([&] { second.commit(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Errc::invalid_argument);
  EXPECT_THAT(error->what(), HasSubstr(in("a").string()));
  EXPECT_EQ(read_file(in("a"), 100), "first");
  EXPECT_EQ(num_entries(), 1U);
}

TEST_F(AtomicFileTest, LetsOneAppearOnEveryFileSystem) {
  for (const auto& [rename, links] :
       {std::pair{true, true}, {false, true}, {false, false}}) {
    lacks_exclusive_rename = !rename;
    lacks_links = !links;
    fs::remove(in("a"));
    EXPECT_TRUE(try_write_file(in("a"), bytes_of("first"), IfThere::refuse));
    EXPECT_FALSE(try_write_file(in("a"), bytes_of("second"), IfThere::refuse));
    EXPECT_EQ(read_file(in("a"), 100), "first") << rename << links;
    EXPECT_EQ(num_entries(), 1U);
  }
  lacks_exclusive_rename = false;
  lacks_links = false;
}

TEST_F(AtomicFileTest, ReplacesOnlyTheFileThatIsKnown) {
  write_file(in("a"), bytes_of("damaged"));
  FileRule rule(IfThere::refuse);
  rule.known = stamp_of(in("a"));
  EXPECT_TRUE(try_write_file(in("a"), bytes_of("mended"), rule));
  EXPECT_EQ(read_file(in("a"), 100), "mended");
  EXPECT_FALSE(try_write_file(in("a"), bytes_of("again"), rule))
      << "what is there now is another file";
  EXPECT_EQ(read_file(in("a"), 100), "mended");
  fs::remove(in("a"));
  EXPECT_EQ(stamp_of(in("a")), std::nullopt);
  EXPECT_TRUE(try_write_file(in("a"), bytes_of("new"), rule));
}

TEST_F(AtomicFileTest, KnowsContentThatWasCopiedOverWithItsTimes) {
  write_file(in("a"), bytes_of("one"));
  const auto before = stamp_of(in("a")).value();
  // Until the clock of the file system has gone on.
  while (stamp_of(in("a"))->changed == before.changed) {
    const auto time = fs::last_write_time(in("a"));
    std::ofstream(in("a")) << "two";
    fs::last_write_time(in("a"), time);
  }
  const auto after = stamp_of(in("a")).value();
  EXPECT_EQ(after.inode, before.inode);
  EXPECT_EQ(after.modified, before.modified);
  EXPECT_NE(after, before);
}

/// Its run may replace it still.
TEST_F(AtomicFileTest, ReplacesTheKnownFileInAnotherMode) {
  write_file(in("a"), bytes_of("first"));
  FileRule rule(IfThere::refuse);
  rule.known = stamp_of(in("a"));
  fs::permissions(in("a"), fs::perms::owner_all);
  fs::create_hard_link(in("a"), in("backup"));
  EXPECT_TRUE(try_write_file(in("a"), bytes_of("second"), rule));
}

TEST_F(AtomicFileTest, TakesEqualBytesForItsOwn) {
  const std::string text(200000, 'x');
  write_file(in("a"), bytes_of(text));
  const auto before = stamp_of(in("a"));
  FileRule rule(IfThere::refuse);
  rule.takes_equal = true;
  EXPECT_TRUE(try_write_file(in("a"), bytes_of(text), rule));
  EXPECT_EQ(stamp_of(in("a")), before);
  for (const std::string& other : {text + "x", text.substr(1), std::string(),
                                   std::string(199999, 'x') + "y"}) {
    EXPECT_FALSE(try_write_file(in("a"), bytes_of(other), rule));
  }
  EXPECT_EQ(num_entries(), 1U);
}

TEST_F(AtomicFileTest, RefusesAMissingFolder) {
  const auto error = error_of([&] { check_writable(in("no/such/a.png")); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Errc::io);
  EXPECT_THAT(error->what(), HasSubstr(in("no/such/a.png").string()));
  EXPECT_THAT(error->what(), HasSubstr("No such file or directory"));
  EXPECT_THAT(error->hint(), HasSubstr("create the folder"));
}

TEST_F(AtomicFileTest, RefusesAFolder) {
  const auto error = error_of([&] { check_writable(folder_.path()); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("Is a directory"));
  EXPECT_THAT(error->hint(), HasSubstr("inside the folder"));
}

TEST_F(AtomicFileTest, RefusesAFileUsedAsAFolder) {
  write_file(in("a"), bytes_of("x"));
  const auto error = error_of([&] { check_writable(in("a") / "b"); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("Not a directory"));
}

TEST_F(AtomicFileTest, RefusesADevice) {
  const auto error = error_of([&] { AtomicFile file("/dev/null"); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("not a regular file"));
}

TEST_F(AtomicFileTest, RefusesAnEmptyPath) {
  EXPECT_TRUE(error_of([] { check_writable(""); }));
}

TEST_F(AtomicFileTest, RefusesAProtectedFolder) {
  if (::geteuid() == 0) {
    GTEST_SKIP() << "root may write anywhere";
  }
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0500), 0);
  const auto error = error_of([&] { check_writable(in("a")); });
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0700), 0);
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("Permission denied"));
}

TEST_F(AtomicFileTest, RefusesAFileSystemThatCreatesNothing) {
  const auto error = error_of([] { check_writable("/proc/troupe-test"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Errc::io);
}

TEST_F(AtomicFileTest, CheckLeavesNoTraceAndTouchesNothing) {
  write_file(in("a"), bytes_of("old"));
  check_writable(in("a"));
  check_writable(in("b"));
  check_writable_folder(folder_.path());
  EXPECT_EQ(num_entries(), 1U);
  EXPECT_EQ(read_file(in("a"), 9), "old");
}

TEST_F(AtomicFileTest, FolderCheckRefusesWhatIsNoFolder) {
  EXPECT_TRUE(error_of([&] { check_writable_folder(in("no")); }));
  write_file(in("a"), bytes_of("x"));
  EXPECT_TRUE(error_of([&] { check_writable_folder(in("a")); }));
}

TEST_F(AtomicFileTest, RemovesTheTemporaryFileWhenTheDiskRefuses) {
  // A limit on file sizes stands in for a full disk.
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit tight = before;
  tight.rlim_cur = 1000;
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const auto error =
      error_of([&] { write_file(in("a"), bytes_of(std::string(5000, 'x'))); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("File too large"));
  EXPECT_EQ(num_entries(), 0U);
}

TEST_F(AtomicFileTest, CommitsOnce) {
  AtomicFile file(in("a"));
  file.commit();
  EXPECT_EQ(error_of([&] { file.commit(); })->code(), Errc::internal);
  EXPECT_EQ(error_of([&] { file.write(bytes_of("x")); })->code(),
            Errc::internal);
}

TEST_F(AtomicFileTest, ReadRefusesWhatIsTooLong) {
  write_file(in("a"), bytes_of(std::string(200000, 'x')));
  EXPECT_EQ(read_file(in("a"), 200000).size(), 200000U);
  const auto error = error_of([&] { (void)read_file(in("a"), 199999); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Errc::invalid_argument);
  EXPECT_THAT(error->what(), HasSubstr("199999"));
}

TEST_F(AtomicFileTest, ReadTellsMissingFromUnreadable) {
  EXPECT_EQ(error_of([&] { (void)read_file(in("no"), 9); })->code(),
            Errc::not_found);
  EXPECT_EQ(error_of([&] { (void)read_file(folder_.path(), 9); })->code(),
            Errc::io);
}

TEST_F(AtomicFileTest, ReadRefusesWhatIsNoFileWithoutWaiting) {
  ASSERT_EQ(::mkfifo(in("pipe").c_str(), 0600), 0);
  for (const std::filesystem::path& path :
       {std::filesystem::path(in("pipe")), std::filesystem::path("/dev/null"),
        folder_.path()}) {
    const auto error = error_of([&] { (void)read_file(path, 9); });
    ASSERT_TRUE(error) << path;
    EXPECT_EQ(error->code(), Errc::io);
    EXPECT_THAT(error->what(), HasSubstr(path.string()));
    EXPECT_THAT(error->what(), HasSubstr("not a regular file"));
    EXPECT_FALSE(error->hint().empty());
  }
}

TEST_F(AtomicFileTest, AStreamIsReadToItsEnd) {
  ASSERT_EQ(::mkfifo(in("pipe").c_str(), 0600), 0);
  const std::string content(1000, 'x');
  for (const std::size_t most : {content.size(), content.size() - 1}) {
    std::thread writer([&] { std::ofstream(in("pipe")) << content; });
    const auto error =
        error_of([&] { EXPECT_EQ(read_stream(in("pipe"), most), content); });
    writer.join();
    EXPECT_EQ(error.has_value(), most < content.size());
  }
  write_file(in("a"), bytes_of(content));
  EXPECT_EQ(read_stream(in("a"), content.size()), content);
  EXPECT_EQ(read_stream("/dev/null", 9), "");
  for (const std::filesystem::path& path :
       {std::filesystem::path(in("none")), folder_.path()}) {
    const auto error = error_of([&] { (void)read_stream(path, 9); });
    ASSERT_TRUE(error) << path;
    EXPECT_THAT(error->what(), HasSubstr(path.string()));
  }
}

TEST_F(AtomicFileTest, ReadKeepsZeroBytes) {
  const std::string content("a\0b\n", 4);
  write_file(in("a"), bytes_of(content));
  EXPECT_EQ(read_file(in("a"), 4), content);
}

}  // namespace
}  // namespace troupe

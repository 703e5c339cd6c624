#include "kernels/core/system/temporary_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/core/system/atomic_file.h"
#include "temporary_folder.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

class TemporaryFilesTest : public testing::Test {
 protected:
  /// A file as `writer` would have left it.
  [[nodiscard]] fs::path left_by(const ProcessStamp& writer) const {
    fs::path path = folder_.path() / (temporary_stem(writer) + "0.tmp");
    std::ofstream(path) << "half";
    return path;
  }
  [[nodiscard]] std::vector<fs::path> entries() const {
    return {fs::directory_iterator(folder_.path()), {}};
  }
  TemporaryFolder folder_;
};

/// A process that is writing a file, for as long as it may live.
class WritingChild {
 public:
  explicit WritingChild(const fs::path& path) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) {
      return;
    }
    pid_ = ::fork();
    if (pid_ == 0) {
      write_half(path, ends[1]);
    }
    ::close(ends[1]);
    char ready = 0;
    (void)!::read(ends[0], &ready, 1);
    ::close(ends[0]);
  }
  ~WritingChild() { end(); }
  WritingChild(const WritingChild&) = delete;
  WritingChild& operator=(const WritingChild&) = delete;

  [[nodiscard]] bool has_begun() const { return pid_ > 0; }
  /// Kills it; it keeps its number until `end`.
  void kill() const {
    if (has_begun()) {
      ::kill(pid_, SIGKILL);
      siginfo_t info{};
      ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
    }
  }
  void end() {
    if (has_begun()) {
      kill();
      ::waitpid(pid_, nullptr, 0);
      pid_ = -1;
    }
  }

 private:
  [[noreturn]] static void write_half(const fs::path& path, int ready) {
    try {
      const std::string half = "half";
      AtomicFile file(path);
      file.write(std::as_bytes(std::span(half)));
      (void)!::write(ready, "x", 1);
      for (;;) {
        ::pause();
      }
    } catch (...) {
      ::_exit(1);
    }
  }

  pid_t pid_ = -1;  // of kill: -1 would be every process there is
};

TEST_F(TemporaryFilesTest, SweepsWhatAKilledProcessLeft) {
  WritingChild child(folder_.path() / "a.png");
  ASSERT_TRUE(child.has_begun());
  ASSERT_EQ(entries().size(), 1U);
  EXPECT_EQ(sweep_temporaries(folder_.path()), 0U) << "its writer lives";
  EXPECT_EQ(entries().size(), 1U);
  child.kill();
  EXPECT_EQ(sweep_temporaries(folder_.path()), 1U) << "not yet reaped";
  EXPECT_TRUE(entries().empty());
  child.end();
}

TEST_F(TemporaryFilesTest, SweepsByNumberStartAndBoot) {
  ProcessStamp before_the_boot = this_process();
  before_the_boot.boot = std::string(32, '0');
  ProcessStamp of_our_number = this_process();
  ++of_our_number.start;
  ProcessStamp of_no_process = this_process();
  of_no_process.pid = 0x7ffffff0;
  for (const ProcessStamp& writer :
       {before_the_boot, of_our_number, of_no_process}) {
    const fs::path path = left_by(writer);
    EXPECT_EQ(sweep_temporaries(folder_.path()), 1U) << path;
    EXPECT_FALSE(fs::exists(path)) << path;
  }
}

TEST_F(TemporaryFilesTest, LeavesWhatMayBeInUse) {
  (void)left_by(this_process());
  ProcessStamp elsewhere = this_process();
  elsewhere.host += "-2";
  elsewhere.boot = std::string(32, '0');
  (void)left_by(elsewhere);
  elsewhere.host = "2-" + this_process().host;
  (void)left_by(elsewhere);
  EXPECT_EQ(sweep_temporaries(folder_.path()), 0U);
  EXPECT_EQ(entries().size(), 3U);
}

TEST_F(TemporaryFilesTest, LeavesWhatALivingProcessHasLocked) {
  ProcessStamp in_a_container = this_process();
  in_a_container.pid = 0x7ffffff0;
  const fs::path path = left_by(in_a_container);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(descriptor, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(sweep_temporaries(folder_.path()), 0U);
  ::close(descriptor);
  EXPECT_EQ(sweep_temporaries(folder_.path()), 1U);
}

TEST_F(TemporaryFilesTest, LeavesOtherFiles) {
  const std::string stem = temporary_stem(this_process());
  const std::string host = this_process().host;
  for (const std::string& name :
       {std::string(".troupe-123-0.tmp"), stem + ".tmp", stem + "x.tmp",
        stem + "0.png", std::string(".troupe-.tmp"),
        ".troupe-" + host + "-0-99999999999-1-0.tmp",
        ".troupe-" + host + "-0--5-1-0.tmp", std::string("image.png")}) {
    std::ofstream(folder_.path() / name) << "x";
  }
  ProcessStamp dead = this_process();
  dead.pid = 0x7ffffff0;
  fs::create_directory(folder_.path() / (temporary_stem(dead) + "1.tmp"));
  fs::create_symlink("image.png",
                     folder_.path() / (temporary_stem(dead) + "2.tmp"));
  const std::size_t before = entries().size();
  EXPECT_EQ(sweep_temporaries(folder_.path()), 0U);
  EXPECT_EQ(entries().size(), before);
  EXPECT_EQ(sweep_temporaries(folder_.path() / "missing"), 0U);
}

TEST_F(TemporaryFilesTest, NamesFitEveryFileSystem) {
  constexpr std::size_t kMost = 140;  // of an encrypted folder
  ProcessStamp longest = this_process();
  longest.host = std::string(40, 'h');
  longest.boot = std::string(32, 'b');
  longest.pid = 4194304;
  longest.start = 9'999'999'999'999;
  EXPECT_LE((temporary_stem(longest) + "999.tmp").size(), kMost);
  EXPECT_LE(this_process().host.size(), 40U);
  EXPECT_EQ(this_process().host.find('/'), std::string::npos);
  EXPECT_GT(this_process().start, 0U);
}

}  // namespace
}  // namespace troupe

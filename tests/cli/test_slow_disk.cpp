#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cerrno>
#include <memory>
#include <system_error>

#include "actors/artefacts/png.h"
#include "tests/cli/link_job.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

constexpr const char* kNotFirst = "a sanitizer's library wants to be first";

/// Each sync takes so much longer: hundreds of tiny samples.
Program::Environment slow_disk() {
  return {"LD_PRELOAD=" TROUPE_SLOW_DISK, "SLOW_DISK_MS=60"};
}

std::size_t num_images(const TempFolder& folder) {
  const std::vector<std::string> names = folder.names();
  return static_cast<std::size_t>(
      std::count_if(names.begin(), names.end(), [](const std::string& name) {
        return name.ends_with(".png") && !name.starts_with(".");
      }));
}

class SlowDisk : public testing::TestWithParam<std::pair<int, int>> {
 protected:
  void SetUp() override {
    if (is_sanitized()) {
      GTEST_SKIP() << kNotFirst;
    }
  }
};

TEST_P(SlowDisk, EveryFinishedPictureLandsAfterASignal) {
  const auto [number, code] = GetParam();
  const TempFolder folder;
  Program program(tiny_sample({"--steps", "1", "-n", "20000", "-o",
                               folder.path(), "--exists", "skip", "--json"}),
                  slow_disk());
  program.await([&] { return num_images(folder) > 0; });
  const std::size_t before = num_images(folder);
  program.signal(number);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, code) << outcome.err;
  const nlohmann::json json = outcome.json();
  std::vector<std::string> listed;
  for (const auto& image : json["images"]) {
    EXPECT_EQ(image["status"], "done") << image;
    const std::filesystem::path path = image["path"].get<std::string>();
    listed.push_back(path.filename());
    const std::string bytes = folder.read(listed.back());
    EXPECT_NO_THROW((void)actors::decode_png(
        listed.back(), std::as_bytes(std::span<const char>(bytes))));
  }
  // Whole ones, nothing half written beside them, and the writer was full.
  EXPECT_EQ(folder.names(), listed);
  EXPECT_GT(listed.size(), before);
  EXPECT_NE(outcome.err.find("stopped after " + std::to_string(listed.size()) +
                             " of 20000 images"),
            std::string::npos)
      << outcome.err;
  EXPECT_LT(listed.size(), 20000U);
}

INSTANTIATE_TEST_SUITE_P(Signals, SlowDisk,
                         testing::Values(std::pair{SIGTERM, 75},
                                         std::pair{SIGUSR1, 75},
                                         std::pair{SIGINT, 130}));

TEST(SlowDiskBytes, AreThoseOfAQuickOne) {
  if (is_sanitized()) {
    GTEST_SKIP() << kNotFirst;
  }
  const TempFolder slow;
  const TempFolder quick;
  const auto arguments = [](const TempFolder& folder) {
    return tiny_sample(
        {"--steps", "1", "-n", "100", "-o", folder.path(), "--class", "1"});
  };
  ASSERT_EQ(run(arguments(slow), slow_disk()).exit_code, 0);
  ASSERT_EQ(run(arguments(quick)).exit_code, 0);
  ASSERT_EQ(quick.names().size(), 100U);
  EXPECT_EQ(slow.names(), quick.names());
  expect_files_of(quick, slow);
}

TEST(BrokenDisk, IsToldFromAFullOne) {
  if (is_sanitized()) {
    GTEST_SKIP() << kNotFirst;
  }
  for (const int reason : {EIO, ESTALE, ENOSPC, EDQUOT}) {
    const TempFolder folder;
    const Outcome outcome = run(tiny_sample({"-n", "1", "-o", folder.path()}),
                                {"LD_PRELOAD=" TROUPE_SLOW_DISK,
                                 "SLOW_DISK_ERRNO=" + std::to_string(reason)});
    EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
    EXPECT_NE(outcome.err.find(std::generic_category().message(reason) + "; "),
              std::string::npos)
        << "has a hint: " << outcome.err;
    EXPECT_EQ(outcome.err.find("make room") != std::string::npos,
              reason == ENOSPC || reason == EDQUOT)
        << outcome.err;
  }
}

TEST(FullDisk, EndsAJobOfSeveralProcesses) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  // A file limit fails a write as a full disk does. The first process inherits
  // it, the worker does not.
  const rlimit lowered{rlim_t{64}, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &lowered), 0);
  const auto job = std::make_unique<LinkJob>(
      LinkJob::Arguments{"--method", "batch", "-n", "3"});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  job->add_worker();
  const Outcome first = job->outcome();
  EXPECT_EQ(first.exit_code, 3) << first.err;
  EXPECT_NE(first.err.find("; raise the limit on the size of files"),
            std::string::npos)
      << first.err;
  const Outcome worker = job->worker(0).wait();
  EXPECT_EQ(worker.exit_code, 0) << worker.err;
  EXPECT_NE(worker.err.find("the job failed"), std::string::npos) << worker.err;
}

}  // namespace
}  // namespace troupe::test

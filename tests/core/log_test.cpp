#include "kernels/core/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace troupe {
namespace {

class Log : public testing::Test {
 protected:
  ~Log() override { set_log_level(LogLevel::warning); }

  // What stderr receives when every level says its own name.
  static std::string output_at(LogLevel level) {
    set_log_level(level);
    testing::internal::CaptureStderr();
    log_message(LogLevel::error, "text of error");
    log_message(LogLevel::warning, "text of warning");
    log_message(LogLevel::info, "text of info");
    log_message(LogLevel::debug, "text of debug");
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(Log, ShowsTheLevelAndWhatIsMoreImportant) {
  using testing::HasSubstr;
  using testing::Not;
  const std::string warning = output_at(LogLevel::warning);
  EXPECT_THAT(warning, HasSubstr("error text of error"));
  EXPECT_THAT(warning, HasSubstr("warning text of warning"));
  EXPECT_THAT(warning, Not(HasSubstr("text of info")));
  EXPECT_THAT(output_at(LogLevel::error), Not(HasSubstr("text of warning")));
  EXPECT_THAT(output_at(LogLevel::info), HasSubstr("info text of info"));
  EXPECT_THAT(output_at(LogLevel::debug), HasSubstr("debug text of debug"));
}

TEST_F(Log, LevelCanBeReadBack) {
  for (const LogLevel level :
       {LogLevel::error, LogLevel::warning, LogLevel::info, LogLevel::debug}) {
    set_log_level(level);
    EXPECT_EQ(log_level(), level);
  }
}

TEST_F(Log, TakesBracesAsText) {
  testing::internal::CaptureStderr();
  log_message(LogLevel::error, "a {} b {0:x} %d");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("a {} b {0:x} %d\n"));
}

TEST_F(Log, KeepsLinesOfManyThreadsWhole) {
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int line = 0; line < 50; ++line) {
        log_message(LogLevel::error, "begin end");
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const std::string output = testing::internal::GetCapturedStderr();
  std::size_t count = 0;
  for (std::size_t at = 0;
       (at = output.find(" begin end\n", at)) != std::string::npos; ++at) {
    ++count;
  }
  EXPECT_EQ(count, 200U);
}

}  // namespace
}  // namespace troupe

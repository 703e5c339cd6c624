#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "actors/cli/run_troupe.h"

namespace troupe::actors {
namespace {

int run_on_an_old_cpu(const std::vector<std::string>& arguments) {
  return run_troupe(arguments, [] { return false; });
}

TEST(UnsupportedCpu, IsRefusedInOneLine) {
  testing::internal::CaptureStderr();
  const int code = run_on_an_old_cpu({"schedule", "--steps", "4"});
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "troupe: [cpu] this processor is not supported: Troupe needs "
            "x86-64 with AVX2 and FMA; troupe doctor shows what was found\n");
  EXPECT_EQ(code, 2);
}

TEST(UnsupportedCpu, IsRefusedInJsonToo) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_on_an_old_cpu({"schedule", "--steps", "4", "--json"}), 2);
  const auto json =
      nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(json["exit_code"], 2);
  EXPECT_EQ(json["error"]["code"], "unsupported");
  EXPECT_NE(testing::internal::GetCapturedStderr(), "");
}

TEST(UnsupportedCpu, IsNotAskedForBeforeTheDoctor) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_on_an_old_cpu({"doctor"}), 0);
  EXPECT_NE(testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace troupe::actors

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "actors/cli/run_report.h"

namespace troupe::actors {
namespace {

/// A run of images of these statuses, as far as its report looks at it.
RunSummary report_of(const std::vector<SampleStatus>& statuses) {
  JobResult result;
  RunSummary summary;
  for (const SampleStatus status : statuses) {
    const std::uint64_t index = result.samples.size();
    result.samples.push_back({index, status});
    const bool is_done = status == SampleStatus::done;
    summary.images.push_back(
        {.index = index, .status = is_done ? "done" : "cancelled"});
  }
  summary.verb = "sample";
  report_cancelled(result, summary);
  return summary;
}

TEST(RunReport, OfAWholeRunSaysDone) {
  const RunSummary summary =
      report_of({SampleStatus::done, SampleStatus::done});
  EXPECT_EQ(summary.status, "done");
  EXPECT_EQ(summary.exit_code, 0);
  EXPECT_TRUE(summary.notes.empty());
}

TEST(RunReport, OfCancelledImagesSaysNeitherDoneNorFailed) {
  const RunSummary summary = report_of(
      {SampleStatus::done, SampleStatus::cancelled, SampleStatus::cancelled});
  const auto json = nlohmann::json::parse(to_json(summary));
  EXPECT_EQ(json["status"], "cancelled");
  EXPECT_EQ(json["exit_code"], 7);
  EXPECT_FALSE(json.contains("error"));
  EXPECT_EQ(json["notes"][0], "2 of 3 images were cancelled");
  testing::internal::CaptureStdout();
  print_result(summary, {}, "1 worker");
  const std::string line = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(line.starts_with("1 image made, 2 were cancelled in ")) << line;
}

TEST(RunReport, OfAnErrorSaysFailedWhateverWasCancelled) {
  const RunSummary summary =
      report_of({SampleStatus::done, SampleStatus::cancelled});
  const auto json = nlohmann::json::parse(
      failure_json(summary, {Errc::job_failed, "job", "no worker is left"}));
  EXPECT_EQ(json["status"], "failed");
  EXPECT_EQ(json["exit_code"], 3);
}

}  // namespace
}  // namespace troupe::actors

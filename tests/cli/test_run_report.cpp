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
  print_result(summary, {}, "1 worker", /*only_measures=*/false);
  const std::string line = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(line.starts_with("1 image made, 2 were cancelled in ")) << line;
  EXPECT_EQ(line.find("peak memory"), std::string::npos) << line;
}

/// The report of a run of so many images, as far as it names the method.
std::string line_of(RunSummary summary, std::size_t images, int workers) {
  summary.images.resize(images);
  summary.workers = workers;
  testing::internal::CaptureStdout();
  print_result(summary, {}, std::to_string(workers) + " workers", false);
  const std::string line = testing::internal::GetCapturedStdout();
  const std::size_t begin = line.find("guidance 1, ") + 12;
  return line.substr(begin, line.find(", f32;") - begin);
}

TEST(RunReport, NamesWorkersThatTheMethodHasWorkFor) {
  RunSummary sequential{.method = "sequential", .dtype = "f32"};
  EXPECT_EQ(line_of(sequential, 3, 1), "sequential on 1 workers");
  EXPECT_EQ(line_of(sequential, 1, 3), "sequential on 1 of 3 workers");
  EXPECT_EQ(line_of(sequential, 9, 3),
            "sequential, each image on one of 3 workers");
  RunSummary batch{.method = "batch", .useful_workers = 9, .dtype = "f32"};
  EXPECT_EQ(line_of(batch, 9, 3), "batch on 3 workers");
  EXPECT_EQ(line_of(batch, 2, 3), "batch on 2 of 3 workers");
  RunSummary cfg{.method = "cfg",
                 .workers_per_image = 2,
                 .useful_workers = 2,
                 .dtype = "f32"};
  EXPECT_EQ(line_of(cfg, 1, 2), "cfg on 2 workers");
  EXPECT_EQ(line_of(cfg, 1, 5), "cfg on 2 of 5 workers");
  RunSummary picard{.method = "picard",
                    .workers_per_image = 0,
                    .useful_workers = 8,
                    .dtype = "f32"};
  EXPECT_EQ(line_of(picard, 1, 5), "picard on 5 workers");
  // Those of other processes count, and processes without a worker do not.
  sequential.nodes = {{.name = "a"}, {.name = "b", .work = {.workers = 2}}};
  EXPECT_EQ(line_of(sequential, 9, 2),
            "sequential, each image on one of 2 workers of 1 process");
}

TEST(RunReport, OfACancelledJobSaysWhoDidIt) {
  RunSummary summary{.verb = "sample", .cancelled_by = "ann at host:1"};
  const auto json = nlohmann::json::parse(
      failure_json(summary, {Errc::cancelled, "sample", "cancelled"}));
  EXPECT_EQ(json["status"], "cancelled");
  EXPECT_EQ(json["exit_code"], 9);
  EXPECT_EQ(json["cancelled_by"], "ann at host:1");
  EXPECT_EQ(json["error"]["retryable"], false);
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

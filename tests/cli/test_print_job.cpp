#include <gtest/gtest.h>

#include "tests/cli/program.h"

// --print-job: the job as a value.

namespace troupe::test {
namespace {

nlohmann::json job_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--print-job", "--json"});
  const Outcome outcome = run(tiny_sample(arguments));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.json();
}

TEST(PrintJob, SaysWhatWorkersGetAndComputesNothing) {
  const TempFolder folder;
  const nlohmann::json job =
      job_of({"-n", "3", "--seed", "5", "--class", "1,2", "--guidance", "2",
              "-o", folder.path("out")});
  EXPECT_FALSE(std::filesystem::exists(folder.path("out")));
  EXPECT_EQ(job["begin"], 0);
  EXPECT_EQ(job["end"], 3);
  EXPECT_EQ(job["seed"], 5);
  EXPECT_EQ(job["conditions"].size(), 2U);
  ASSERT_EQ(job["unconditional"].size(), 1U);
  EXPECT_EQ(job["unconditional"][0].get<std::string>().size(), 16U);
  EXPECT_EQ(job["guidance_scale"], 2.0);
  EXPECT_EQ(job["model"]["denoiser_config"]["_class_name"],
            "DiTTransformer2DModel");
  const std::size_t calls = job["schedule"]["timesteps"].size();
  EXPECT_EQ(job["schedule"]["levels"].size(), calls + 1);
  // The last level has no noise, and JSON no infinity.
  EXPECT_EQ(job["schedule"]["levels"][calls]["log_sigma"], "-inf");
  EXPECT_EQ(job["execution_classes"].size(), 1U);
  // Nothing of this machine or of the command line.
  EXPECT_EQ(job.dump().find(folder.path()), std::string::npos);
  EXPECT_EQ(job["cuts"], (std::vector{0, 4}));
}

TEST(PrintJob, NamesEqualJobsAlikeWhereverTheyRun) {
  const std::string name =
      job_of({"-n", "3", "--method", "batch"})["job"].get<std::string>();
  EXPECT_EQ(name.size(), 16U);
  EXPECT_EQ(job_of({"-n", "3", "--method", "batch", "--workers", "1"})["job"],
            name);
  EXPECT_EQ(job_of({"-n", "3", "--method", "batch", "--threads", "2", "--batch",
                    "2"})["job"],
            name);
  for (const std::vector<std::string>& other :
       {std::vector<std::string>{"-n", "4"},
        {"-n", "3", "--seed", "1"},
        {"-n", "3", "--class", "1"},
        {"-n", "3", "--guidance", "1"},
        {"-n", "3", "--sampler", "euler"},
        {"-n", "3", "--size", "32x32"}}) {
    std::vector<std::string> arguments = other;
    arguments.insert(arguments.end(), {"--method", "batch"});
    EXPECT_NE(job_of(arguments)["job"], name) << other.back();
  }
}

TEST(PrintJob, RefusesAnotherClassThatIsRequired) {
  const Outcome outcome =
      run(tiny_sample({"--print-job", "--require-class", "0123456789abcdef"}));
  EXPECT_EQ(outcome.exit_code, 8);
  EXPECT_EQ(outcome.out, "");
}

TEST(PrintJob, NamesTheModifiersOfTheMethod) {
  const nlohmann::json job =
      job_of({"--method", "draft+cache", "--cache-threshold", "0.5"});
  EXPECT_EQ(job["method"]["kind"], "draft+cache");
  EXPECT_EQ(job["method"]["cache_threshold"], 0.5);
}

}  // namespace
}  // namespace troupe::test

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

nlohmann::json plan_of(std::vector<std::string> more) {
  more.insert(more.end(), {"--dry-run", "--json"});
  const Outcome outcome = run(tiny_sample(more));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = outcome.json();
  EXPECT_EQ(json["status"], "planned");
  return json["plan"];
}

TEST(DryRun, SaysCostMemoryAndTimeInJson) {
  const nlohmann::json plan =
      plan_of({"-n", "3", "--guidance", "2", "--class", "1"});
  EXPECT_EQ(plan["images"], 3);
  EXPECT_EQ(plan["forward_rows"], 3 * 4 * 2);
  EXPECT_GT(plan["flops"], 0);
  EXPECT_GT(plan["memory_bytes"], 0);
  EXPECT_GT(plan["available_memory_bytes"], 0);
  EXPECT_GT(plan["predicted_seconds"], 0);
  EXPECT_EQ(plan["prediction"], "about");
  EXPECT_NE(plan["measured"].get<std::string>().find("rows through"),
            std::string::npos);
}

TEST(DryRun, HasARowForEachPlanOfShards) {
  const nlohmann::json plan =
      plan_of({"--size", "64", "--shards", "3", "--shard-plan", "ring",
               "--threads", "1"});
  std::map<std::string, nlohmann::json> of_three;
  for (const nlohmann::json& one : plan["shard_plans"]) {
    if (one["shards"] == 3) {
      of_three[one["plan"]] = one;
    }
  }
  ASSERT_EQ(of_three.size(), 3U) << plan;
  nlohmann::json ring = of_three["ring"];
  EXPECT_GT(ring["received_bytes"], 0);
  EXPECT_NE(ring["exchanges"], of_three["ulysses"]["exchanges"]);
  EXPECT_EQ(ring["is_measured"], true);
  nlohmann::json gather = of_three["gather"];
  // The same seconds, added up in another order.
  EXPECT_NEAR(ring["row_seconds"], gather["row_seconds"], 1e-9);
  gather["row_seconds"] = ring["row_seconds"];
  gather["plan"] = "ring";
  gather["is_measured"] = true;
  EXPECT_EQ(ring, gather) << "it exchanges the same";
}

TEST(DryRun, CountsTwiceTheRowsForTwiceTheSteps) {
  const nlohmann::json once = plan_of({"--steps", "10", "--guidance", "1"});
  const nlohmann::json twice = plan_of({"--steps", "20", "--guidance", "1"});
  EXPECT_EQ(once["forward_rows"], 10);
  EXPECT_EQ(twice["forward_rows"], 20);
  EXPECT_DOUBLE_EQ(twice["flops"].get<double>(),
                   2 * once["flops"].get<double>());
}

TEST(DryRun, CallsPicardsFiguresABound) {
  const nlohmann::json plan =
      plan_of({"--method", "picard", "--window", "2", "--tolerance", "0.1",
               "--guidance", "1"});
  EXPECT_EQ(plan["prediction"], "at most");
  EXPECT_EQ(plan["forward_rows"], 2 + 2 + 2 + 1);
  EXPECT_EQ(plan["sequential_forward_rows"], 4);
  const Outcome text = run(tiny_sample({"--method", "picard", "--window", "4",
                                        "--tolerance", "0.1", "--dry-run"}));
  EXPECT_NE(text.out.find("time       at most "), std::string::npos)
      << text.out;
  // Windows of 4, 3, 2 and 1 points of a run of 4 steps.
  EXPECT_NE(text.out.find(", 2.5 × the rows of the sequential run, "),
            std::string::npos)
      << text.out;
  const Outcome exact = run(tiny_sample({"--dry-run"}));
  EXPECT_NE(exact.out.find(" forward rows, as the sequential run, "),
            std::string::npos)
      << exact.out;
}

TEST(DryRun, PlansOnlyTheImagesThatAreMissing) {
  const TempFolder folder;
  ASSERT_EQ(run(tiny_sample({"-n", "2", "-o", folder.path()})).exit_code, 0);
  const nlohmann::json plan =
      plan_of({"-n", "3", "-o", folder.path(), "--exists", "skip"});
  EXPECT_EQ(plan["images"], 1);
  const nlohmann::json none =
      plan_of({"-n", "2", "-o", folder.path(), "--exists", "skip"});
  EXPECT_EQ(none["forward_rows"], 0);
  EXPECT_EQ(none["predicted_seconds"], 0.0);
}

/// Where a pass of the whole network would take a minute.
TEST(DryRun, MeasuresASmallerPictureThanALargeOne) {
  const Outcome outcome =
      run({"sample", "--random-weights", "tiny-sd15", "-p", "a fox", "--size",
           "4096x4096", "--dry-run", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json plan = outcome.json()["plan"];
  EXPECT_NE(plan["measured"].get<std::string>().find(" with latents [4, "),
            std::string::npos)
      << plan;
  EXPECT_GT(plan["predicted_seconds"], 0);
}

TEST(DryRun, OfAProcessThatDirectsHasNeitherTimeNorTheNetworksMemory) {
  const TempFolder folder;
  const std::string endpoint = "ipc://" + folder.path("link/a");
  const nlohmann::json plan = plan_of({"--workers", "0", "--listen", endpoint});
  EXPECT_TRUE(plan["predicted_seconds"].is_null()) << plan;
  EXPECT_EQ(plan["measured"], "other processes compute");
  EXPECT_LT(plan["memory_bytes"],
            plan_of({"--workers", "1"})["memory_bytes"].get<double>() / 2);
  const Outcome text =
      run(tiny_sample({"--workers", "0", "--listen", endpoint, "--dry-run"}));
  EXPECT_NE(text.out.find("placement  no worker here, "), std::string::npos)
      << text.out;
}

}  // namespace
}  // namespace troupe::test

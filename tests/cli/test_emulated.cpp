// `bench --emulate`: a modelled machine, real numbers.

#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

std::vector<std::string> tiny_bench(std::vector<std::string> more) {
  std::vector<std::string> all = {
      "bench", "--random-weights", "dit-tiny", "--class",
      "1",     "--steps",          "6",        "-n",
      "3",     "--dtype",          "f32"};
  all = overridden(std::move(all), more);
  return all;
}

nlohmann::json emulated(std::vector<std::string> more) {
  more.emplace_back("--json");
  const Outcome outcome = run(tiny_bench(std::move(more)));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.json();
}

TEST(Emulate, GivesTheLatentsOfARealRun) {
  const std::vector<std::vector<std::string>> methods = {
      {"--method", "sequential"},
      {"--method", "batch"},
      {"--method", "cfg"},
      {"--method", "picard", "--window", "3", "--tolerance", "0.5"},
      {"--method", "pipeline", "--segments", "2"},
      {"--method", "stale", "--segments", "2"}};
  for (std::vector<std::string> method : methods) {
    const std::string name = method[1];
    std::vector<std::string> real = method;
    real.insert(real.end(),
                {"--workers", "2", "--threads", "1", "--repeats", "1"});
    const nlohmann::json expected = emulated(real)["rows"].back();
    method.insert(method.end(), {"--emulate", "4", "--jitter", "0.2"});
    const nlohmann::json printed = emulated(method);
    const nlohmann::json& got = printed["rows"].back();
    EXPECT_EQ(got["latents_xxh3"], expected["latents_xxh3"]) << name;
    EXPECT_EQ(got["nfe"], expected["nfe"]) << name;
    EXPECT_EQ(got["rounds"], expected["rounds"]) << name;
    EXPECT_EQ(got["relative_rmse"], expected["relative_rmse"]) << name;
    EXPECT_EQ(got["emulated"], true) << name;
    EXPECT_FALSE(expected.contains("emulated")) << name;
    EXPECT_EQ(printed["emulated"]["devices"], 4) << name;
    EXPECT_GE(got["over_lower_bound"], 1.0) << name;
  }
}

TEST(Emulate, ModelsTheTimeItIsTold) {
  const nlohmann::json printed =
      emulated({"--emulate", "3", "--method", "batch", "--step-ms", "100",
                "--row-slope", "0.5", "--guidance", "2", "--speeds", "1,1,2",
                "--link-us", "10", "--link-gbps", "25", "--seed", "7"});
  const nlohmann::json& rows = printed["rows"];
  ASSERT_EQ(rows.size(), 2U);
  // 6 calls of 3 samples, two rows each: 100 ms and half of that.
  EXPECT_NEAR(rows[0]["seconds"], 18 * 0.150, 0.001);
  EXPECT_NEAR(rows[1]["work_seconds"], 18 * 0.150 / 4, 1e-9);
  EXPECT_EQ(printed["emulated"]["speeds"], nlohmann::json({1.0, 1.0, 2.0}));
  EXPECT_EQ(emulated({"--emulate", "3", "--method", "batch", "--jitter", "1"}),
            emulated({"--emulate", "3", "--method", "batch", "--jitter", "1"}));
}

TEST(Emulate, TakesSeveralMethodsInOneCall) {
  const nlohmann::json rows =
      emulated({"--emulate", "4", "--method", "batch,picard,pipeline",
                "--segments", "2"})["rows"];
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[1],
            emulated({"--emulate", "4", "--method", "batch"})["rows"][1]);
  EXPECT_EQ(rows[2],
            emulated({"--emulate", "4", "--method", "picard"})["rows"][1]);
  EXPECT_EQ(rows[3], emulated({"--emulate", "4", "--method", "pipeline",
                               "--segments", "2"})["rows"][1]);
}

// Four devices as two workers of two.
TEST(Emulate, DividesPassesAmongDevices) {
  const auto bench = [](const char* shards, const char* gbps) {
    return emulated({"--size", "64", "--emulate", "4", "--shards", shards,
                     "--method", "batch", "--link-us", "10", "--steps", "2",
                     "--samples", "2", "--link-gbps", gbps});
  };
  const nlohmann::json fast = bench("2", "1000");
  const nlohmann::json slow = bench("2", "0.1");
  EXPECT_EQ(fast["emulated"]["devices"], 4);
  EXPECT_EQ(fast["emulated"]["speeds"], nlohmann::json({1.0, 1.0}));
  EXPECT_EQ(fast["emulated"]["shards"], 2);
  EXPECT_GT(fast["emulated"]["shard_exchanges"], 1);
  EXPECT_NEAR(fast["emulated"]["shard_share"], 0.5, 0.02);
  EXPECT_GT(fast["rows"][1]["speedup_over_1_worker"], 3.5);
  EXPECT_LT(slow["rows"][1]["speedup_over_1_worker"],
            fast["rows"][1]["speedup_over_1_worker"]);
  const nlohmann::json alone = bench("1", "1000");
  for (const nlohmann::json& one : {fast, slow}) {
    EXPECT_EQ(one["rows"][0]["seconds"], alone["rows"][0]["seconds"]);
    EXPECT_EQ(one["rows"][1]["latents_xxh3"], alone["rows"][1]["latents_xxh3"]);
  }
}

TEST(Emulate, IsMarkedInTheTable) {
  const Outcome outcome = run(tiny_bench({"--emulate", "2"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\nemulated: 2 devices, speed 1, 40 ms"),
            std::string::npos)
      << outcome.out;
  for (const char* row :
       {"\nsequential, 1 emulated device ", "\nbatch, 2 emulated devices "}) {
    EXPECT_NE(outcome.out.find(row), std::string::npos) << outcome.out;
  }
  EXPECT_EQ(outcome.err.find("will be slower"), std::string::npos)
      << outcome.err;
}

TEST(Emulate, RefusesToRepeatWhatDoesNotVary) {
  const Outcome outcome = run(tiny_bench({"--emulate", "2", "--repeats", "5"}));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("[--repeats] an emulated run gives the same"),
            std::string::npos)
      << outcome.err;
}

TEST(Emulate, ReadsBackItsPrintedConfig) {
  const TempFolder folder;
  const Outcome printed =
      run(tiny_bench({"--emulate", "2", "--speeds", "1,2", "--jitter", "0.1",
                      "--print-config"}));
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  const std::string file = folder.write("bench.toml", printed.out);
  const Outcome again = run({"bench", "--config", file, "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err << printed.out;
  EXPECT_EQ(again.json()["emulated"]["speeds"], nlohmann::json({1.0, 2.0}));
}

}  // namespace
}  // namespace troupe::test

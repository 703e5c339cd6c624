// --device, --dtype and --bits as a user meets them on a machine without a GPU.

#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

bool has_gpu() { return run({"doctor", "--json"}).json()["cuda"] == true; }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Devices, AGpuThatCannotBeUsedIsOneLine) {
  if (has_gpu()) {
    GTEST_SKIP() << "a GPU is there";
  }
  const TempFolder folder;
  for (const char* device : {"cuda", "cuda:0", "cpu,cuda", "gpu"}) {
    const Outcome outcome = run(tiny_sample(
        {"-o", folder.path("a.png"), "--device", device, "--json"}));
    EXPECT_EQ(outcome.exit_code, 2) << device;
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "[--device] no GPU can be used: "))
        << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "--device cpu")) << outcome.err;
    EXPECT_EQ(outcome.json()["error"]["code"], "unsupported");
  }
  EXPECT_TRUE(folder.names().empty());
  const Outcome named =
      run(tiny_sample({"-o", folder.path("a.png")}), {"TROUPE_DEVICE=cuda"});
  EXPECT_TRUE(contains(named.err, "[TROUPE_DEVICE] no GPU")) << named.err;
}

TEST(Devices, AMistypedOneIsOneLineWithWhatWasMeant) {
  const Outcome outcome = run(tiny_sample({"--device", "cdua:1"}));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "did you mean 'cuda:0'?") ||
              contains(outcome.err, "did you mean 'cuda'?"))
      << outcome.err;
}

TEST(Devices, F16IsNotForTheCpu) {
  const Outcome outcome =
      run(tiny_sample({"--device", "cpu", "--dtype", "f16", "--dry-run"}));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_TRUE(
      contains(outcome.err, "[--dtype] the CPU does not compute in f16"))
      << outcome.err;
}

TEST(Devices, TheCpuByNameGivesTheSameFile) {
  if (has_gpu()) {
    GTEST_SKIP() << "a GPU is there";
  }
  const TempFolder folder;
  const Outcome plain =
      run(tiny_sample({"-o", folder.path("a.png"), "--json"}));
  const Outcome named = run(tiny_sample({"-o", folder.path("b.png"), "--device",
                                         "cpu", "--batch", "2", "--json"}));
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  ASSERT_EQ(named.exit_code, 0) << named.err;
  EXPECT_EQ(folder.read("a.png"), folder.read("b.png"));
  const nlohmann::json json = named.json();
  EXPECT_EQ(json["devices"],
            nlohmann::json({{{"name", "cpu"}, {"status", "used"}}}));
  EXPECT_FALSE(json.contains("bits"));
  EXPECT_FALSE(json["images"][0].contains("execution_class"));
  EXPECT_EQ(json["execution_class"], plain.json()["execution_class"]);
}

TEST(Devices, WhatIsAboutGpusIsSaidToBe) {
  const TempFolder folder;
  const Outcome outcome =
      run(tiny_sample({"-o", folder.path("a.png"), "--device", "cpu", "--bits",
                       "free", "--tf32"}));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(contains(outcome.err, "--bits and --tf32 are about GPUs"))
      << outcome.err;
}

TEST(Devices, AreKeysOfAFile) {
  const TempFolder folder;
  const std::string file = folder.write(
      "run.toml", "device = \"cpu\"\nbits = \"invariant\"\nbatch = \"3\"\n");
  const Outcome outcome =
      run(tiny_sample({"--config", file, "--print-config"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "device = [\"cpu\"] ")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "batch = 3 ")) << outcome.out;
}

TEST(Devices, StandInTheDryRun) {
  const Outcome outcome =
      run(tiny_sample({"--device", "cpu", "--dry-run", "--json"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["plan"]["gpus"], nlohmann::json::array());
  EXPECT_EQ(outcome.json()["devices"][0]["name"], "cpu");
}

}  // namespace
}  // namespace troupe::test

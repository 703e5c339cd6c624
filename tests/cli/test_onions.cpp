// A UNet cut like an onion: --cut onion.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/link_job.h"

namespace troupe::test {
namespace {

using Arguments = std::vector<std::string>;

Arguments joined(Arguments one, const Arguments& more) {
  one = overridden(std::move(one), more);
  return one;
}

/// A job of a tiny UNet, whose onions have up to four parts.
Arguments unet_job(const char* verb, const Arguments& more) {
  return joined(
      {verb, "--random-weights", "tiny-sd15", "--prompt", "a fox", "--sampler",
       "ddim", "--steps", "6", "--dtype", "f32", "--json"},
      more);
}

nlohmann::json done(const Arguments& arguments) {
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.json();
}

Arguments onion_of(int parts, const char* method) {
  return {"--method",  method,       "--cut",
          "onion",     "--segments", std::to_string(parts),
          "--threads", "1"};
}

TEST(Onion, OfAnyNumberOfPartsGivesTheBytesOfOneWorker) {
  const auto one = done(unet_job(
      "sample", {"-n", "3", "--workers", "1", "--method", "sequential"}));
  EXPECT_FALSE(one.contains("cut"));
  for (int parts = 2; parts <= 4; ++parts) {
    const auto exact = joined(onion_of(parts, "pipeline"), {"-n", "3"});
    const auto fresh =
        joined(onion_of(parts, "stale"), {"-n", "3", "--ages", "0"});
    for (const int workers : {1, parts}) {
      for (const Arguments& method : {exact, fresh}) {
        const auto got = done(unet_job(
            "sample", joined(method, {"--workers", std::to_string(workers)})));
        EXPECT_EQ(got["latents_xxh3"], one["latents_xxh3"])
            << method[1] << ", " << parts << " parts";
        EXPECT_EQ(got["cut"], "onion");
      }
    }
  }
}

TEST(Onion, ThatIsStaleHasBytesOfItsOwnWhoeverRunsIt) {
  const TempFolder folder;
  const auto sample = [&](const Arguments& more) {
    return done(unet_job("sample", more))["latents_xxh3"];
  };
  const Arguments onion = joined(onion_of(3, "stale"), {"--stale-at", "cuts"});
  const auto expected =
      sample(joined(onion, {"--workers", "3", "-o", folder.path("a.png")}));
  EXPECT_EQ(sample(joined(onion, {"--workers", "1"})), expected);
  EXPECT_EQ(sample(joined(onion, {"--workers", "2"})), expected);
  const Arguments chain = {"--method", "stale",      "--cut",
                           "chain",    "--segments", "3"};
  EXPECT_NE(sample(joined(chain, {"--stale-at", "cuts"})), expected);
  EXPECT_EQ(sample(chain), sample(onion_of(3, "stale")))
      << "drafts go through the whole network, however it is cut";
  EXPECT_NE(sample({"--method", "sequential"}), expected);
  // The recipe says how it was cut.
  const auto again = run(
      {"sample", "--from", folder.path("a.png"), "-o", folder.path("b.png")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(folder.read("b.png"), folder.read("a.png"));
}

TEST(Onion, GoesToWorkersOfOtherProcesses) {
  for (const char* method : {"pipeline", "stale"}) {
    LinkJob job(joined(
        {"--random-weights", "tiny-sd15", "--prompt", "a fox", "-n", "3"},
        onion_of(2, method)));
    job.add_worker();
    job.add_worker({"--wait", "2"});
    EXPECT_EQ(job.finish()["latents_xxh3"], job.alone()["latents_xxh3"])
        << method;
  }
}

/// Skips never leave the worker that made them: what is sent are the hidden
/// states, inward and outward, and nothing else.
TEST(Onion, SendsHiddenStatesAlone) {
  for (int parts = 2; parts <= 4; ++parts) {
    for (const char* method : {"pipeline", "stale"}) {
      const Arguments onion = onion_of(parts, method);
      const auto plan =
          done(unet_job("sample", joined(onion, {"--dry-run", "-n", "3"})));
      const auto per_call = plan["plan"]["crossing_bytes"].get<int>();
      ASSERT_GT(per_call, 0);
      const auto rows = done(unet_job(
          "bench", joined({"--emulate", std::to_string(parts), "-n", "3"},
                          Arguments(onion.begin(), onion.end() - 2))))["rows"];
      const int sent = rows.back()["bytes_sent"].get<int>();
      // Of a stale run, turns that nobody reads are not taken.
      EXPECT_LE(sent, 3 * 6 * per_call) << method;
      EXPECT_GE(sent, 3 * (6 - parts) * per_call) << method;
      if (std::string(method) == "pipeline") {
        EXPECT_EQ(sent, 3 * 6 * per_call) << parts;
      }
    }
  }
}

/// Modelled time: the links are slow, or cost next to nothing.
TEST(Onion, IsTakenWhereItIsQuicker) {
  const auto row = [](const char* gbps, const Arguments& cut) {
    return done(unet_job(
        "bench", joined({"--emulate", "3", "-n", "6", "--method", "pipeline",
                         "--segments", "3", "--link-gbps", gbps},
                        cut)))["rows"]
        .back();
  };
  for (const auto& [gbps, expected] :
       {std::pair("0.001", "onion"), {"0.01", "onion"}, {"1", "chain"}}) {
    const auto taken = row(gbps, {});
    EXPECT_EQ(taken["cut"], expected) << gbps;
    for (const char* cut : {"chain", "onion"}) {
      EXPECT_LE(taken["seconds"], row(gbps, {"--cut", cut})["seconds"]) << gbps;
    }
  }
}

/// 95 % of the speed that its bound allows, over a link that is felt.
TEST(Onion, ThatIsStaleComesNearItsBound) {
  for (int parts = 2; parts <= 4; ++parts) {
    const Arguments onion = onion_of(parts, "stale");
    Arguments arguments =
        unet_job("bench", joined({"--emulate", std::to_string(parts),
                                  "--step-ms", "138", "--link-gbps", "0.025",
                                  "--stale-at", "cuts", "--final-fresh", "0"},
                                 Arguments(onion.begin(), onion.end() - 2)));
    *(std::ranges::find(arguments, "--steps") + 1) = "50";
    const auto row = done(arguments)["rows"].back();
    EXPECT_LE(row["over_lower_bound"].get<double>(), 1 / 0.95);
    EXPECT_GT(row["speedup_over_1_worker"].get<double>(), 1.5);
  }
}

TEST(Onion, IsNamedByTheDryRun) {
  Arguments arguments =
      unet_job("sample", joined(onion_of(2, "stale"), {"--dry-run"}));
  std::erase(arguments, "--json");
  const Outcome outcome = run(arguments);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("method     stale, 2 parts, cut as an onion: "),
            std::string::npos)
      << outcome.out;
}

void expect_refused(const Arguments& more, const std::string& says) {
  const Outcome outcome = run(unet_job("sample", more));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
}

TEST(Onion, IsRefusedWhereThereIsNone) {
  expect_refused({"--method", "pipeline", "--cut", "onion", "--segments", "5"},
                 "[--segments] more parts than an onion of this network has: "
                 "got 5, expected at most 4");
  expect_refused({"--method", "picard", "--cut", "onion"},
                 "[--cut] this is an option of --method pipeline or stale");
  expect_refused({"--method", "stale", "--cut", "onion", "--stride", "2"},
                 "[--cut] an onion has one executor for each part");
  expect_refused({"--preset", "asyncdiff2", "--cut", "onion"},
                 "[--cut] an onion has one executor for each part");
  expect_refused({"--method", "stale", "--cut", "spiral"}, "[--cut] ");
  const Outcome dit = run({"sample", "--random-weights", "dit-tiny", "--method",
                           "pipeline", "--cut", "onion"});
  EXPECT_EQ(dit.exit_code, 2);
  EXPECT_NE(dit.err.find("[--cut] the network has no skips"), std::string::npos)
      << dit.err;
}

}  // namespace
}  // namespace troupe::test

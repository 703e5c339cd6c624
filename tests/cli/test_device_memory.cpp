// What of a job fits into the memory of devices, on machines that are described
// here.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "actors/cli/job_layout.h"
#include "actors/cli/job_request.h"
#include "actors/cli/memory_plan.h"
#include "config/parse_value.h"
#include "kernels/attention.h"
#include "tests/cli/described_machines.h"

namespace troupe::actors {
namespace {

TEST(DeviceMemory, RefusesWithTheNumbersWhatDoesNotFit) {
  const Gpus full = machine({gpu(0, "A", 9)}, kGiB / 8);
  const std::string text = refusal(job("cuda:0"), full);
  EXPECT_TRUE(contains(text,
                       "[cuda:0] the job does not fit on A: got 128 MiB "
                       "free, expected "))
      << text;
  EXPECT_TRUE(contains(text, "--device cpu")) << text;
  const JobRequest request = make_request(job("auto"), nullptr, full);
  EXPECT_FALSE(request.devices[0].is_gpu());
  EXPECT_TRUE(std::ranges::any_of(request.notes, [](const auto& note) {
    return contains(note, "cuda:0 (A) is left out: got 128 MiB free");
  }));
}

TEST(DeviceMemory, NamesTilesWhereTheyWouldFit) {
  config::Config config = job("cuda:0", 1);
  config.size = {1024, 1024};
  const auto needed = [&](bool in_tiles) {
    config.vae_tiling = in_tiles;
    return make_request(config, nullptr, machine({gpu(0, "A", 9)}))
        .devices[0]
        .required_bytes;
  };
  const std::uint64_t whole = needed(false);
  const std::uint64_t tiled = needed(true);
  ASSERT_LT(tiled, whole);
  const auto told = [&](bool in_tiles, std::uint64_t free) {
    config.vae_tiling = in_tiles;
    return refusal(config, machine({gpu(0, "A", 9)}, free));
  };
  EXPECT_EQ(told(true, tiled), "accepted");
  EXPECT_TRUE(contains(told(false, tiled),
                       " | start the job with --vae-tiling: then it takes "))
      << told(false, tiled);
  // Not where they would not help, or are there.
  EXPECT_FALSE(contains(told(false, tiled / 4), "--vae-tiling"));
  EXPECT_FALSE(contains(told(true, tiled / 4), "--vae-tiling"));
}

TEST(DeviceMemory, NamesTilesWhereTheHostIsShort) {
  config::Config config = job("cpu", 1);
  config.size = {1024, 1024};
  const JobRequest request = make_request(config);
  const std::uint64_t saved = tiling_saves(request.source, DType::f32);
  ASSERT_GT(saved, 0U);
  const auto hint = [&](int decodes, std::uint64_t free) {
    return memory_hint(request.source, DType::f32, decodes,
                       {free, 2 * saved + kGiB}, "otherwise");
  };
  EXPECT_EQ(hint(2, kGiB),
            "start the job with --vae-tiling: then it takes 1.00 GiB");
  EXPECT_EQ(hint(2, kGiB - 1), "otherwise");
  EXPECT_EQ(hint(1, kGiB), "otherwise");
  config.vae_tiling = true;
  EXPECT_EQ(tiling_saves(make_request(config).source, DType::f32), 0U);
  config.vae_tiling = false;
  config.size = {16, 16};
  EXPECT_EQ(tiling_saves(make_request(config).source, DType::f32), 0U);
}

TEST(DeviceMemory, TakesFewerImagesAtOnceWhereMemoryIsShort) {
  config::Config config = job("cuda", 64);
  config.random_weights = "dit-s-2";
  const JobRequest roomy =
      make_request(config, nullptr, machine({gpu(0, "A", 9)}));
  ASSERT_GT(roomy.devices[0].rows, 8);
  const std::uint64_t needed = roomy.devices[0].required_bytes;
  const JobRequest tight =
      make_request(config, nullptr, machine({gpu(0, "A", 9)}, needed - 1));
  EXPECT_EQ(tight.devices[0].rows, roomy.devices[0].rows / 2);
  EXPECT_LT(tight.devices[0].required_bytes, needed);
  config.batch = roomy.devices[0].rows;
  EXPECT_TRUE(contains(refusal(config, machine({gpu(0, "A", 9)}, kGiB / 4)),
                       "--batch"));
}

TEST(DeviceMemory, LetsWeightsVisitWhereTheyDoNotFit) {
  config::Config config = job("cuda", 1);
  config.random_weights = "dit-xl-2-256";
  const JobRequest roomy =
      make_request(config, nullptr, machine({gpu(0, "A", 9)}));
  EXPECT_EQ(roomy.devices[0].placement, models::WeightPlacement::resident);
  const JobRequest tight =
      make_request(config, nullptr, machine({gpu(0, "A", 9)}, kGiB));
  EXPECT_EQ(tight.devices[0].placement, models::WeightPlacement::offloaded);
  EXPECT_LE(tight.devices[0].required_bytes, kGiB);
  // They wait in the host's memory.
  EXPECT_GE(tight.required_bytes + tight.devices[0].required_bytes,
            roomy.devices[0].required_bytes);
  EXPECT_TRUE(std::ranges::any_of(tight.notes, [](const auto& note) {
    return contains(note, "does not fit on cuda:0 (A): its blocks' weights");
  }));
}

// A UNet's weights cannot visit the GPU, so the plan does not announce a visit.
TEST(DeviceMemory, LetsNoWeightsVisitThatCannot) {
  config::Config config = job("cuda:0", 1);
  config.random_weights = "sd15";
  config.classes.clear();
  config.dry_run = true;
  const JobRequest request =
      make_request(config, nullptr, machine({gpu(0, "A", 9)}, kGiB));
  ASSERT_FALSE(request.source.denoiser().can_offload());
  EXPECT_TRUE(request.devices[0].is_full());
  EXPECT_EQ(request.devices[0].placement, models::WeightPlacement::resident);
  EXPECT_FALSE(std::ranges::any_of(
      request.notes, [](const auto& note) { return contains(note, "visit"); }));
  config.dry_run = false;
  const std::string text = refusal(config, machine({gpu(0, "A", 9)}, kGiB));
  EXPECT_TRUE(contains(text,
                       "[cuda:0] the job does not fit on A: got 1.00 GiB "
                       "free, expected "))
      << text;
  EXPECT_TRUE(contains(text, "--device cpu")) << text;
}

TEST(DeviceMemory, CountsWhatThreadsCopy) {
  config::Config config = job("cpu", 1);
  config.num_workers = 1;
  config.dry_run = true;
  const auto needed = [&](int threads) {
    config.num_threads = threads;
    return make_request(config, nullptr, no_gpu()).required_bytes;
  };
  config.size = {512, 512};
  const std::uint64_t own = needed(2) - needed(1);
  EXPECT_GT(own, 0U);
  EXPECT_EQ(needed(3) - needed(2), own) << "each has copies of its own";
  // Where these have no room, threads share them.
  config.size = {1024, 1024};
  EXPECT_LT(needed(32) - needed(1), kernels::kMostAttentionBytes);
}

}  // namespace
}  // namespace troupe::actors

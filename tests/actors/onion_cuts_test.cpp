
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "actors/network_cuts.h"
#include "kernels/core/error.h"
#include "models/description.h"
#include "models/files/json.h"

namespace troupe::actors {
namespace {

using models::DenoiserInfo;
using models::SkipInfo;
using samplers::CutShape;
using samplers::MethodKind;
using samplers::MethodOptions;

/// The part that block `block` lies in.
int part_of_block(const std::vector<int>& cuts, int block) {
  const auto segment = std::ranges::upper_bound(cuts, block) - cuts.begin() - 1;
  const auto segments = static_cast<std::ptrdiff_t>(cuts.size()) - 1;
  return static_cast<int>(std::min(segment, segments - 1 - segment));
}

/// Whether the part that makes each skip takes it, block by block.
bool every_skip_is_at_home(const DenoiserInfo& info,
                           const std::vector<int>& cuts) {
  return std::ranges::all_of(info.skips, [&](const SkipInfo& skip) {
    const int maker = std::max(skip.made_before - 1, 0);
    return part_of_block(cuts, maker) == part_of_block(cuts, skip.taken_by);
  });
}

double slowest_part(const DenoiserInfo& info, const std::vector<int>& cuts,
                    const std::vector<double>& speeds) {
  std::vector<double> sums(cuts.size() / 2);
  for (std::size_t b = 0; b < info.blocks.size(); ++b) {
    const auto part =
        static_cast<std::size_t>(part_of_block(cuts, static_cast<int>(b)));
    sums[part] += info.blocks[b].flops / (speeds.empty() ? 1 : speeds[part]);
  }
  return std::ranges::max(sums);
}

std::size_t bytes_between(const DenoiserInfo& info,
                          const std::vector<int>& cuts) {
  std::size_t bytes = 0;
  for (std::size_t i = 1; i + 1 < cuts.size(); ++i) {
    bytes += info.hidden_bytes(cuts[i]);
  }
  return bytes;
}

/// Calls `take` with all ascending lists of `count` numbers of [begin, end).
void for_each_choice(int begin, int end, int count, std::vector<int>& so_far,
                     const std::function<void(const std::vector<int>&)>& take) {
  if (count == 0) {
    take(so_far);
    return;
  }
  for (int next = begin; next < end; ++next) {
    so_far.push_back(next);
    for_each_choice(next + 1, end, count - 1, so_far, take);
    so_far.pop_back();
  }
}

/// The slowest part and the bytes of the best onion there is; infinity: none.
std::pair<double, std::size_t> best_onion(const DenoiserInfo& info, int parts,
                                          const std::vector<double>& speeds) {
  const auto count = static_cast<int>(info.blocks.size());
  std::pair<double, std::size_t> best{std::numeric_limits<double>::infinity(),
                                      0};
  std::vector<int> chosen = {0};
  for_each_choice(
      1, count, 2 * parts - 2, chosen, [&](const std::vector<int>& inner) {
        std::vector<int> cuts = inner;
        cuts.push_back(count);
        if (every_skip_is_at_home(info, cuts)) {
          best = std::min(best, std::pair(slowest_part(info, cuts, speeds),
                                          bytes_between(info, cuts)));
        }
      });
  return best;
}

/// Blocks of whole costs and sizes; skips are nested, or some at random.
DenoiserInfo random_network() {
  DenoiserInfo info;
  const int count = *rc::gen::inRange(2, 10);
  for (int b = 0; b < count; ++b) {
    info.blocks.push_back(
        {.flops = static_cast<double>(*rc::gen::inRange(0, 20)),
         .hidden_bytes = *rc::gen::inRange<std::size_t>(1, 9)});
  }
  const bool is_nested = *rc::gen::inRange(0, 3) > 0;
  for (int made = 0; made < count / 2; ++made) {
    if (is_nested) {
      info.skips.push_back({made, count - 1 - made});
    } else if (*rc::gen::inRange(0, 3) == 0) {
      info.skips.push_back({made, *rc::gen::inRange(made + 1, count)});
    }
  }
  if (info.skips.empty()) {
    info.skips.push_back({0, count - 1});
  }
  return info;
}

TEST(CutOnion, IsAsGoodAsTryingEveryOnion) {
  EXPECT_TRUE(rc::check([] {
    const DenoiserInfo info = random_network();
    std::vector<double> costs;
    for (const models::BlockInfo& block : info.blocks) {
      costs.push_back(block.flops);
    }
    const int most = most_onion_parts(info);
    const int parts = *rc::gen::inRange(1, most + 1);
    std::vector<double> speeds;
    if (*rc::gen::inRange(0, 2) == 1) {
      // Powers of two, so that sums of quotients are exact.
      for (int p = 0; p < parts; ++p) {
        speeds.push_back(1 << *rc::gen::inRange(0, 3));
      }
    }
    const std::vector<int> cuts = cut_onion(info, costs, parts, speeds);
    RC_ASSERT(cuts.size() == static_cast<std::size_t>(2 * parts));
    RC_ASSERT(cuts.front() == 0);
    RC_ASSERT(cuts.back() == static_cast<int>(costs.size()));
    RC_ASSERT(std::ranges::adjacent_find(cuts, std::greater_equal<>()) ==
              cuts.end());
    RC_ASSERT(every_skip_is_at_home(info, cuts));
    RC_ASSERT(keep_skips_at_home(info.skips, cuts));
    const auto best = best_onion(info, parts, speeds);
    RC_ASSERT(slowest_part(info, cuts, speeds) == best.first);
    RC_ASSERT(bytes_between(info, cuts) == best.second);
    RC_ASSERT(std::isinf(best_onion(info, most + 1, {}).first));
  }));
}

TEST(CutOnion, TellsOnionsFromOtherCuts) {
  EXPECT_TRUE(rc::check([] {
    const DenoiserInfo info = random_network();
    const auto count = static_cast<int>(info.blocks.size());
    const int parts = *rc::gen::inRange(1, count / 2 + 1);
    std::vector<int> chosen = {0};
    for_each_choice(1, count, 2 * parts - 2, chosen,
                    [&](const std::vector<int>& inner) {
                      std::vector<int> cuts = inner;
                      cuts.push_back(count);
                      RC_ASSERT(keep_skips_at_home(info.skips, cuts) ==
                                every_skip_is_at_home(info, cuts));
                    });
  }));
}

TEST(CutOnion, RefusesMorePartsThanThereAreAndSpeedsThatDoNotFit) {
  DenoiserInfo info;
  info.blocks.assign(6, {.flops = 1, .hidden_bytes = 1});
  EXPECT_EQ(most_onion_parts(info), 0) << "without skips";
  info.skips = {{0, 5}, {1, 4}, {2, 3}};
  EXPECT_EQ(most_onion_parts(info), 3);
  const std::vector<double> costs(6, 1.0);
  EXPECT_EQ(cut_onion(info, costs, 3), (std::vector<int>{0, 1, 2, 3, 4, 6}));
  EXPECT_THROW((void)cut_onion(info, costs, 4), Error);
  EXPECT_THROW((void)cut_onion(info, costs, 0), Error);
  const std::vector<double> one = {1.0};
  EXPECT_THROW((void)cut_onion(info, costs, 3, one), Error);
}

DenoiserInfo unet_info(const char* text) {
  const models::Json config = models::Json::parse(text, "config.json");
  const auto network =
      models::find_denoiser(config, "UNet2DConditionModel").describe(config);
  return network->info(network->latent_shape(), DType::bf16);
}

/// Stable Diffusion XL, 1024 pixels, bf16.
DenoiserInfo sdxl() {
  return unet_info(R"({
    "addition_embed_type": "text_time", "addition_time_embed_dim": 256,
    "attention_head_dim": [5, 10, 20], "block_out_channels": [320, 640, 1280],
    "cross_attention_dim": 2048,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D",
                         "CrossAttnDownBlock2D"],
    "projection_class_embeddings_input_dim": 2816, "sample_size": 128,
    "transformer_layers_per_block": [1, 2, 10],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D",
                       "UpBlock2D"],
    "use_linear_projection": true})");
}

MethodOptions cut(CutShape shape, int parts) {
  return {.kind = MethodKind::stale, .num_segments = parts, .cut = shape};
}

double busiest_share(const DenoiserInfo& info, const MethodOptions& method) {
  const std::vector<double> shares =
      segment_shares(info, balanced_cuts(info, method));
  std::vector<double> parts(static_cast<std::size_t>(method.num_segments));
  for (std::size_t s = 0; s < shares.size(); ++s) {
    parts[static_cast<std::size_t>(
        samplers::part_of_segment(method, static_cast<int>(s)))] += shares[s];
  }
  return std::ranges::max(parts);
}

/// The cut of research: level 2 but its last skip inside, 1.3 MB in, 2.6 MB
/// out. An eighth of what a chain sends would be too much.
TEST(NetworkCuts, OfSdxlInTwoSendsAnEighthOfTheChainAtMost) {
  const DenoiserInfo info = sdxl();
  EXPECT_EQ(most_onion_parts(info), 9);
  const MethodOptions onion = cut(CutShape::onion, 2);
  const MethodOptions chain = cut(CutShape::chain, 2);
  const std::vector<int> rings = balanced_cuts(info, onion);
  EXPECT_EQ(rings, (std::vector<int>{0, 6, 11, 18}));
  const CutBytes by_onion = bytes_of_cuts(info, rings, CutShape::onion);
  const CutBytes by_chain =
      bytes_of_cuts(info, balanced_cuts(info, chain), CutShape::chain);
  EXPECT_EQ(by_onion.crossing, 2U * (640 + 1280) * 32 * 32);
  EXPECT_EQ(by_onion.boundary, 2U * 1280 * 32 * 32);
  EXPECT_LE(by_onion.crossing, by_chain.crossing * 12 / 100);
  EXPECT_EQ(by_chain.skips, 0U);
  // All skips but those of level 2.
  EXPECT_EQ(by_onion.skips, 2U * (3 * 320 * 128 * 128 + 320 * 64 * 64 +
                                  2 * 640 * 64 * 64 + 640 * 32 * 32));
  EXPECT_NEAR(busiest_share(info, onion), 0.56, 0.01);
  EXPECT_NEAR(busiest_share(info, chain), 0.55, 0.01);
}

TEST(NetworkCuts, OfManyPartsKeepSkipsAtHomeAndTheirWorkersBusy) {
  const DenoiserInfo info = sdxl();
  for (int parts = 2; parts <= 5; ++parts) {
    const MethodOptions onion = cut(CutShape::onion, parts);
    const std::vector<int> cuts = balanced_cuts(info, onion);
    EXPECT_TRUE(keep_skips_at_home(info.skips, cuts));
    EXPECT_LT(
        bytes_of_cuts(info, cuts, CutShape::onion).crossing,
        bytes_of_cuts(info, balanced_cuts(info, cut(CutShape::chain, parts)),
                      CutShape::chain)
                .crossing /
            2);
  }
}

TEST(NetworkCuts, GiveAFasterWorkerMore) {
  const DenoiserInfo info = sdxl();
  MethodOptions method = cut(CutShape::onion, 2);
  const std::vector<int> equal = balanced_cuts(info, method);
  method.segment_speeds = {3, 1};
  const std::vector<int> outer = balanced_cuts(info, method);
  EXPECT_GT(outer[1], equal[1]);
  method.segment_speeds = {1, 3};
  EXPECT_LT(balanced_cuts(info, method)[1], equal[1]);
}

TEST(CheaperCut, WeighsLoadAgainstTheLink) {
  const DenoiserInfo info = sdxl();
  const MethodOptions method = cut(CutShape::chain, 2);
  const auto chosen = [&](double bytes_per_second, const DenoiserInfo& of) {
    return cheaper_cut(of, method,
                       {.row_seconds = 1,
                        .bytes_per_second = bytes_per_second,
                        .calls_at_once = 2});
  };
  // The chain's parts are more alike, and that is all that counts here.
  EXPECT_EQ(chosen(1e12, info), CutShape::chain);
  EXPECT_EQ(chosen(5e7, info), CutShape::onion);
  DenoiserInfo without = info;
  without.skips.clear();
  EXPECT_EQ(chosen(5e7, without), CutShape::chain);
  MethodOptions strided = method;
  strided.stride = 2;
  EXPECT_EQ(cheaper_cut(info, strided, {1, 5e7, 0, 2}), CutShape::chain);
  MethodOptions many = method;
  many.num_segments = 10;
  EXPECT_EQ(cheaper_cut(info, many, {1, 5e7, 0, 2}), CutShape::chain);
}

TEST(CheaperCut, CountsTheBusiestPartTheLinkAndTheWayOfACall) {
  DenoiserInfo info;
  info.blocks = {{.flops = 3, .hidden_bytes = 10},
                 {.flops = 4, .hidden_bytes = 20},
                 {.flops = 1, .hidden_bytes = 30}};
  info.skips = {{0, 2, 10}};
  const auto seconds = [&](CutShape shape, double rate, double calls) {
    return seconds_per_call(info, cut(shape, 2), {8, rate, 0.5, calls});
  };
  // The core takes 4 of 8; in a chain the larger half 5.
  EXPECT_DOUBLE_EQ(seconds(CutShape::onion, 1e9, 100), 4);
  EXPECT_DOUBLE_EQ(seconds(CutShape::chain, 1e9, 100), 5);
  // 20 bytes inward and 30 outward, by one worker each; in a chain 20 and the
  // skip of 10.
  EXPECT_DOUBLE_EQ(seconds(CutShape::onion, 1, 100), 30);
  EXPECT_DOUBLE_EQ(seconds(CutShape::chain, 1, 100), 30);
  // Alone: all work and all hops.
  EXPECT_NEAR(seconds(CutShape::onion, 10, 1), 8 + 5 + 1, 1e-9);
  EXPECT_NEAR(seconds(CutShape::chain, 10, 1), 8 + 3 + 0.5, 1e-9);
}

TEST(CallsAtOnce, AreSamplesInFlightOrStepsOfAge) {
  const MethodOptions pipeline{.kind = MethodKind::pipeline, .num_segments = 3};
  EXPECT_EQ(calls_at_once(pipeline, 2), 2);
  EXPECT_EQ(calls_at_once(pipeline, 100), 6);
  MethodOptions stale{.kind = MethodKind::stale, .num_segments = 3};
  EXPECT_EQ(calls_at_once(stale, 100), 3);
  stale.ages = {2, 3};
  EXPECT_EQ(calls_at_once(stale, 1), 6);
}

}  // namespace
}  // namespace troupe::actors

#include "actors/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <set>

#include "kernels/linear.h"
#include "models/network/parted_denoiser.h"
#include "tests/actors/drawn_networks.h"

namespace troupe::actors {
namespace {

// Ranks compile products at the same time, and the library keeps them behind a
// lock that ThreadSanitizer cannot see.
#ifndef __SANITIZE_THREAD__

// Networks, sizes, ranks, shares, cuts and types are drawn.
TEST(ThreadTeam, GivesTheBytesOfOneRank) {
  const int cases = num_cases(40);
  for (int seed = 0; seed < cases; ++seed) {
    Draw draw(static_cast<unsigned>(seed));
    const int ranks = static_cast<int>(draw.number(2, 5));
    const Drawn drawn = draw.network(128 * ranks, DeviceKind::cpu);
    const DType compute = draw.coin() && kernels::supports(DType::bf16)
                              ? DType::bf16
                              : DType::f32;
    ExecContext lead(static_cast<int>(draw.number(1, 2)));
    models::RandomWeights weights(lead, 7);
    const auto network = drawn.network->load(lead, compute, weights);
    Rows alone(lead, drawn, *network, draw.number(1, 2));
    alone.ring_blocks = draw.coin() ? draw.number(2, 5) : 1;
    ShardContext whole;
    network->predict(lead, whole, alone.batch(), alone.outputs);

    const AttentionPlan plan =
        draw.coin() ? AttentionPlan::ulysses : AttentionPlan::gather;
    ThreadTeam team(lead, ranks, plan);
    if (draw.coin()) {
      team.fix_shares(draw.shares(ranks));
    }
    Rows shared(lead, drawn, *network,
                static_cast<std::int64_t>(alone.latents.size()));
    shared.ring_blocks = alone.ring_blocks;
    const auto expect_same = [&](const char* how) {
      for (std::size_t i = 0; i < alone.outputs.size(); ++i) {
        ASSERT_TRUE(bytes_equal(shared.outputs[i], alone.outputs[i]))
            << "seed " << seed << ", " << drawn.what << " "
            << to_string(drawn.latents) << ", " << ranks << " ranks, "
            << to_string(compute) << ", "
            << (plan == AttentionPlan::ulysses ? "ulysses" : "gather") << ", "
            << alone.ring_blocks << " ring blocks, " << how;
        std::fill_n(shared.outputs[i].data<float>(),
                    shared.outputs[i].num_elements(), 0.0F);
      }
    };
    // Twice: the second pass has shares by the first one's times.
    for (int pass = 0; pass < 2; ++pass) {
      team.run([&](ExecContext& ctx, ShardContext& shard) {
        network->predict(ctx, shard, shared.batch(), shared.outputs);
      });
      expect_same("whole");
    }
    const int blocks = static_cast<int>(network->info().blocks.size());
    const int cut = static_cast<int>(draw.number(0, blocks));
    std::vector<Boundary> boundaries(shared.latents.size());
    team.run([&](ExecContext& ctx, ShardContext& shard) {
      network->embed(ctx, shard, shared.batch(), boundaries);
      network->run_blocks(ctx, shard, shared.batch(), 0, cut, boundaries);
    });
    // A boundary is whole: any number of ranks goes on with it.
    if (draw.coin()) {
      network->run_blocks(lead, whole, shared.batch(), cut, blocks, boundaries);
    } else {
      team.run([&](ExecContext& ctx, ShardContext& shard) {
        network->run_blocks(ctx, shard, shared.batch(), cut, blocks,
                            boundaries);
      });
    }
    team.run([&](ExecContext& ctx, ShardContext& shard) {
      network->finish(ctx, shard, shared.batch(), boundaries, shared.outputs);
    });
    expect_same("cut");
  }
}

/// How far outputs are from others, relative to those: by the root of the mean
/// square, and by the largest.
struct Distance {
  Distance() = default;
  Distance(const Rows& rows, const Rows& from) {
    double square = 0;
    double size = 0;
    double largest = 0;
    for (std::size_t i = 0; i < rows.outputs.size(); ++i) {
      const auto* const a = rows.outputs[i].data<float>();
      const auto* const b = from.outputs[i].data<float>();
      for (std::int64_t e = 0; e < rows.outputs[i].num_elements(); ++e) {
        const double x = b[e];
        const double apart = a[e] - x;
        square += apart * apart;
        size += x * x;
        most = std::max(most, std::abs(apart));
        largest = std::max(largest, std::abs(x));
      }
    }
    rmse = std::sqrt(square / size);
    most /= largest;
  }
  double rmse = 0;
  double most = 0;
};

// The promise of --shard-plan ring.
TEST(ThreadTeam, MergesBlocksCloseToAllKeys) {
  const int cases = num_cases(12);
  Distance worst;
  Distance ratio;
  double least = 1;
  int others = 0;
  for (int seed = 0; seed < cases; ++seed) {
    Draw draw(static_cast<unsigned>(2000 + seed));
    const std::int64_t blocks = draw.number(2, 5);
    const Drawn drawn = draw.network(128 * blocks, DeviceKind::cpu);
    ExecContext ctx(2);
    const auto computed = [&](DType compute, std::int64_t ring_blocks) {
      models::RandomWeights weights(ctx, 7);
      const auto network = drawn.network->load(ctx, compute, weights);
      Rows rows(ctx, drawn, *network, 2);
      rows.ring_blocks = ring_blocks;
      ShardContext whole;
      network->predict(ctx, whole, rows.batch(), rows.outputs);
      return rows;
    };
    const std::string what = "seed " + std::to_string(seed) + ", " +
                             drawn.what + ", " + std::to_string(blocks) +
                             " blocks";
    const Rows exact = computed(DType::f32, 1);
    const Rows ring = computed(DType::f32, blocks);
    const Distance f32(ring, exact);
    EXPECT_LE(f32.rmse, 1e-5) << what;
    EXPECT_LE(f32.most, 1e-5) << what;
    others += bytes_equal(ring.outputs[0], exact.outputs[0]) ? 0 : 1;
    worst.rmse = std::max(worst.rmse, f32.rmse);
    worst.most = std::max(worst.most, f32.most);
    if (kernels::supports(DType::bf16)) {
      const Distance rounded(computed(DType::bf16, 1), exact);
      const Distance both(computed(DType::bf16, blocks), exact);
      EXPECT_LE(both.rmse, 1.5 * rounded.rmse) << what;
      ratio.rmse = std::max(ratio.rmse, both.rmse / rounded.rmse);
      // The largest of many roundings is as often smaller as it is larger.
      ratio.most = std::max(ratio.most, both.most / rounded.most);
      least = std::min(least, both.most / rounded.most);
    }
  }
  EXPECT_GT(others, 0) << "nothing was merged";
  std::printf(
      "worst of %d: f32 %.2g (largest %.2g); bf16 %.3f times the rounding's "
      "(largest %.3f to %.3f)\n",
      cases, worst.rmse, worst.most, ratio.rmse, least, ratio.most);
}

// Latents of as many pixels as ranks divide, and of fewer.
TEST(ThreadTeam, DecodesToTheBytesOfOneRank) {
  const int cases = num_cases(12);
  for (int seed = 0; seed < cases; ++seed) {
    Draw draw(static_cast<unsigned>(1000 + seed));
    const int ranks = static_cast<int>(draw.number(2, 5));
    const models::AutoencoderKlConfig config = draw.decoder(DeviceKind::cpu);
    const DType compute = draw.coin() && kernels::supports(DType::bf16)
                              ? DType::bf16
                              : DType::f32;
    ExecContext lead(static_cast<int>(draw.number(1, 3)));
    models::RandomWeights weights(lead, 7);
    const models::AutoencoderKl decoder(lead, config, compute, weights);
    Tensor latents(
        {config.latent_channels, draw.number(4, 40), draw.number(4, 40)},
        DType::f32);
    fill_normal({.seed = static_cast<std::uint64_t>(seed)}, latents);
    Tensor alone(config.pixel_shape(latents.shape()), DType::f32);
    decoder.decode(lead, latents, alone);
    ThreadTeam team(lead, ranks);
    team.fix_shares(draw.shares(ranks));
    Tensor shared(alone.shape(), DType::f32);
    for (int pass = 0; pass < 2; ++pass) {
      team.run([&](ExecContext& ctx, ShardContext& shard) {
        models::ImagePass layers(ctx, shard);
        decoder.decode(layers, latents, shared);
      });
      ASSERT_TRUE(bytes_equal(shared, alone))
          << "seed " << seed << ", latents " << to_string(latents.shape())
          << ", " << ranks << " ranks, " << to_string(compute);
    }
  }
}

// Rank 0 reads the parts: its context is the one that is watched.
TEST(ThreadTeam, ReadsAPartOnce) {
  ExecContext lead(3);
  Draw draw(0);
  Drawn drawn = draw.network(128 * 3, DeviceKind::cpu);
  while (drawn.network->facts().blocks.value_or(0) < 2) {
    drawn = draw.network(128 * 3, DeviceKind::cpu);
  }
  models::RandomWeights weights(lead, 7);
  const auto network = drawn.network->load(lead, DType::f32, weights);
  Rows alone(lead, drawn, *network, 2);
  ShardContext whole;
  network->predict(lead, whole, alone.batch(), alone.outputs);

  const int blocks = static_cast<int>(network->info().blocks.size());
  int reads = 0;
  std::set<const ExecContext*> readers;
  const models::PartedDenoiser parted(
      network->info(), {0, 1, blocks},
      [&](ExecContext& ctx, models::SegmentRange range) {
        ++reads;
        readers.insert(&ctx);
        models::RandomWeights same(ctx, 7);
        return std::shared_ptr<const Denoiser>(
            drawn.network->load(ctx, DType::f32, same, range));
      });
  ThreadTeam team(lead, 3);
  Rows shared(lead, drawn, parted, 2);
  for (int pass = 0; pass < 3; ++pass) {
    std::vector<Boundary> boundaries(2);
    team.run([&](ExecContext& ctx, ShardContext& shard) {
      parted.embed(ctx, shard, shared.batch(), boundaries);
      parted.run_blocks(ctx, shard, shared.batch(), 0, blocks, boundaries);
      parted.finish(ctx, shard, shared.batch(), boundaries, shared.outputs);
    });
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(bytes_equal(shared.outputs[i], alone.outputs[i])) << i;
    }
  }
  EXPECT_EQ(reads, 2);
  EXPECT_EQ(readers.size(), 1U);
}

#endif

TEST(ThreadTeam, EndsWithTheFirstErrorOfARankAndGoesOn) {
  for (int broken = 0; broken < 4; ++broken) {
    ExecContext lead(4);
    ThreadTeam team(lead, 4);
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> met = 0;
      const Error error =
          error_of(team, [&](ExecContext&, ShardContext& shard) {
            for (int i = 0; i < 20; ++i) {
              require(shard.rank() != broken || i != round, Errc::out_of_memory,
                      "rank", "broken");
              shard.meet();
              ++met;
            }
          });
      EXPECT_EQ(error.code(), Errc::out_of_memory);
      EXPECT_LE(met, 4 * round);
      int whole = 0;
      team.run([&](ExecContext&, ShardContext& shard) {
        Tensor all = shard.share({4}, DType::f32, {});
        all.data<float>()[shard.rank()] = 1.0F;
        shard.meet();
        if (shard.rank() == broken) {
          for (const float* one = all.data<float>();
               one != all.data<float>() + 4; ++one) {
            whole += static_cast<int>(*one);
          }
        }
      });
      EXPECT_EQ(whole, 4);
    }
  }
}

TEST(ThreadTeam, StopsWithItsLead) {
  ExecContext lead(2);
  ThreadTeam team(lead, 2);
  const std::uint64_t before = lead.ticks();
  const Error error =
      error_of(team, [&](ExecContext& ctx, ShardContext& shard) {
        for (int i = 0; i < 1000; ++i) {
          if (i == 10 && shard.rank() == 1) {
            lead.request_stop();
          }
          ctx.tick();
          shard.meet();
        }
      });
  EXPECT_EQ(error.code(), Errc::interrupted);
  EXPECT_GE(lead.ticks(), before + 10);
  EXPECT_LE(lead.ticks(), before + 13) << "ticks of rank 0 alone count";
}

TEST(ThreadTeam, StopsWhereRanksWaitForALongStage) {
  ExecContext lead(2);
  ThreadTeam team(lead, 2);
  std::atomic<int> left = 0;
  const Error error = error_of(team, [&](ExecContext&, ShardContext& shard) {
    if (shard.rank() == 1) {
      lead.request_stop();  // in a stage that does not ask
    }
    shard.meet();
    ++left;
  });
  EXPECT_EQ(error.code(), Errc::interrupted) << error.what();
  EXPECT_EQ(left, 0);
}

TEST(ThreadTeam, GivesTokensToTheFasterRanks) {
  // Rank 0 is three times as fast.
  std::vector<double> shares = {0.5, 0.5};
  for (int pass = 0; pass < 8; ++pass) {
    shares = next_shares(shares, {shares[0], 3 * shares[1]});
    EXPECT_DOUBLE_EQ(shares[0] + shares[1], 1);
  }
  EXPECT_NEAR(shares[0], 0.75, 0.02);
  EXPECT_EQ(next_shares(shares, {0, 1}), shares) << "nothing was measured";
  for (int pass = 0; pass < 20; ++pass) {
    shares = next_shares(shares, {1, 1e6});
  }
  EXPECT_GE(shares[1], 0.02) << "it is measured again";
}

}  // namespace
}  // namespace troupe::actors

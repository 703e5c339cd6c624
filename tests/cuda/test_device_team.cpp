// Ranks on emulated GPUs compute a pass together: the bytes of one, and errors
// that end the pass of all.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/cuda/emulator/faults.h"
#include "tests/cuda/emulator/nccl.h"
#include "tests/cuda/ensemble.h"

namespace troupe::actors {
namespace {

using DeviceTeamTest = EmulatedTeam;

// Networks, sizes, ranks, GPUs, shares, cuts and orders of work are drawn.
TEST_F(DeviceTeamTest, GivesTheBytesOfOneDevice) {
  const int cases = num_cases(3);
  for (int seed = 0; seed < cases; ++seed) {
    Draw draw(static_cast<unsigned>(seed));
    const int ranks = static_cast<int>(draw.number(2, 5));
    const int gpus = static_cast<int>(draw.number(1, ranks));
    set_up(gpus, static_cast<unsigned>(seed), draw.coin());
    std::vector<int> devices;
    for (int r = 0; r < ranks; ++r) {
      devices.push_back(r % gpus);
    }
    const Drawn drawn = draw.network(128 * ranks, DeviceKind::cuda);
    const AttentionPlan plan =
        draw.coin() ? AttentionPlan::ulysses : AttentionPlan::gather;
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + drawn.what + " " +
                 to_string(drawn.latents) + ", " + std::to_string(ranks) +
                 " ranks on " + std::to_string(gpus) + " GPUs, " +
                 (plan == AttentionPlan::ulysses ? "ulysses" : "gather"));
    const bool by_nccl = gpus == ranks && draw.coin();
    const DType compute = draw.number(0, 3) == 0 ? DType::f32 : DType::bf16;
    Ensemble ensemble(drawn, compute, draw.number(1, 2), devices, plan,
                      by_nccl ? GpuExchange::nccl : GpuExchange::peer);
    ensemble.team().set_patience(endless_patience());
    if (draw.coin()) {
      ensemble.team().fix_shares(draw.shares(ranks));
    }
    const std::vector<Tensor> want = ensemble.alone();
    for (int pass = 0; pass < 4; ++pass) {  // queued, recorded, played twice
      expect_same(ensemble.together(), want);
    }
    const auto blocks = ensemble.network(ensemble.lead()).info().blocks.size();
    expect_same(ensemble.together_cut(static_cast<int>(
                    draw.number(0, static_cast<std::int64_t>(blocks)))),
                want);
  }
}

// Decoders, latents, ranks, GPUs, shares and orders of work are drawn. Latents
// have as many pixels as ranks divide, or fewer.
TEST_F(DeviceTeamTest, DecodesToTheBytesOfOneDevice) {
  const int cases = num_cases(3);
  for (int seed = 0; seed < cases; ++seed) {
    Draw draw(static_cast<unsigned>(1000 + seed));
    const int ranks = static_cast<int>(draw.number(2, 5));
    const int gpus = static_cast<int>(draw.number(1, ranks));
    set_up(gpus, static_cast<unsigned>(seed), draw.coin());
    const models::AutoencoderKlConfig config = draw.decoder(DeviceKind::cuda);
    const DType compute = draw.coin() ? DType::f32 : DType::bf16;
    std::vector<std::unique_ptr<const models::AutoencoderKl>> decoders;
    for (int device = 0; device < gpus; ++device) {
      ExecContext ctx(1, gpu(device));
      models::RandomWeights weights(ctx, 7);
      decoders.push_back(std::make_unique<models::AutoencoderKl>(
          ctx, config, compute, weights));
    }
    std::int64_t side = 1;
    while (side * side < 128 * ranks) {
      ++side;
    }
    Tensor latents({config.latent_channels, side + draw.number(-2, 6),
                    side + draw.number(-2, 6)},
                   DType::f32);
    fill_normal({.seed = static_cast<std::uint64_t>(seed)}, latents);
    // Whole, or in tiles.
    const std::int64_t tile = draw.number(0, 2) == 0 ? side + 1 : 0;
    SCOPED_TRACE("seed " + std::to_string(seed) + ", latents " +
                 to_string(latents.shape()) + ", " + std::to_string(ranks) +
                 " ranks on " + std::to_string(gpus) + " GPUs, tile " +
                 std::to_string(tile));
    ExecContext lead(1, gpu(0));
    std::vector<Device> others;
    for (int r = 1; r < ranks; ++r) {
      others.push_back(gpu(r % gpus));
    }
    DeviceTeam team(lead, others, DeviceOptions{});
    team.set_patience(endless_patience());
    if (draw.coin()) {
      team.fix_shares(draw.shares(ranks));
    }
    models::ImagePass whole(lead);
    Tensor alone(config.pixel_shape(latents.shape()), DType::f32);
    decoders[0]->decode(whole, latents, tile, alone);
    for (int pass = 0; pass < 2; ++pass) {
      Tensor shared(alone.shape(), DType::f32);
      team.run([&](ExecContext& ctx, ShardContext& shard) {
        models::ImagePass layers(ctx, shard);
        decoders[static_cast<std::size_t>(ctx.device().index)]->decode(
            layers, latents, tile, shared);
      });
      EXPECT_TRUE(bytes_equal(shared, alone)) << "pass " << pass;
    }
  }
}

// Rank r writes a third of the columns of all rows, or a third of the rows, and
// reads the others' rows and columns in part.
TEST_F(DeviceTeamTest, CopiesNothingThatARankDoesNotRead) {
  constexpr std::int64_t kRows = 12;
  constexpr std::int64_t kColumns = 9;
  for (const bool by_columns : {false, true}) {
    set_up(3, by_columns ? 1 : 0, by_columns);
    ExecContext lead(1, gpu(0));
    const std::vector<Device> others = {gpu(1), gpu(2)};
    DeviceTeam team(lead, others, DeviceOptions{});
    const auto of_rank = [&](int rank) {
      const std::int64_t r = rank;
      const RowRange rows{4 * r, 4 * (r + 1)};
      const RowRange columns{3 * r, 3 * (r + 1)};
      const SharedBlock by_row{rows, {0, kColumns}};
      const SharedBlock by_column{{0, kRows}, columns};
      return SharedBlocks{.written = {by_columns ? by_column : by_row},
                          .read = {by_columns ? by_row : by_column}};
    };
    std::vector<Tensor> seen(3);
    team.run([&](ExecContext& ctx, ShardContext& shard) {
      Tensor all = shard.share({kRows, kColumns}, DType::f32, of_rank);
      Tensor mine({kRows, kColumns}, DType::f32);
      std::ranges::fill(mine.span<float>(),
                        static_cast<float>(shard.rank() + 1));
      kernels::copy(ctx, mine, all);
      shard.meet();
      seen[static_cast<std::size_t>(shard.rank())] = kernels::on_host(ctx, all);
    });
    for (int reader = 0; reader < 3; ++reader) {
      const Tensor& got = seen[static_cast<std::size_t>(reader)];
      for (std::int64_t row = 0; row < kRows; ++row) {
        for (std::int64_t column = 0; column < kColumns; ++column) {
          const std::int64_t writer = by_columns ? column / 3 : row / 4;
          const bool reads = (by_columns ? row / 4 : column / 3) == reader;
          EXPECT_EQ(got.data<float>()[row * kColumns + column],
                    static_cast<float>(1 + (reads ? writer : reader)))
              << reader << " at " << row << ", " << column;
        }
      }
    }
  }
}

/// Two ranks of an ordinary network.
Drawn some_network(Draw& draw) {
  return draw.network(2 * 128, DeviceKind::cuda);
}

TEST_F(DeviceTeamTest, RefusesWhatHasOtherBytes) {
  Draw draw(0);
  set_up(2, 0);
  Ensemble ensemble(some_network(draw), DType::bf16, 1, {0, 1});
  emulator::set_blas_behaviour(
      {.order = {emulator::BlasAlgorithm::by_columns}});
  const std::vector<Tensor> want = ensemble.alone();
  const Error error = error_of(ensemble);
  EXPECT_EQ(error.code(), Errc::unsupported) << error.what();
  EXPECT_EQ(error.place(), "matmul");
  expect_same(ensemble.alone(), want);
}

TEST_F(DeviceTeamTest, LetsNoHostWaitInsideAPass) {
  Draw draw(1);
  set_up(2, 1);
  Ensemble ensemble(some_network(draw), DType::bf16, 1, {0, 1});
  const std::vector<Tensor> want = ensemble.alone();
  for (int pass = 0; pass < 2; ++pass) {
    expect_same(ensemble.together(), want);
  }
  const emulator::Counters lead = emulator::counters(0);
  const emulator::Counters other = emulator::counters(1);
  ensemble.team().run(ensemble.pass());
  for (const int device : {0, 1}) {
    const emulator::Counters& before = device == 0 ? lead : other;
    EXPECT_GT(emulator::counters(device).graph_launches,
              before.graph_launches + 2)
        << "a recording is cut at every exchange";
  }
  EXPECT_EQ(emulator::counters(0).host_waits, lead.host_waits);
  EXPECT_EQ(emulator::counters(1).host_waits, other.host_waits) << "at the end";
  EXPECT_EQ(emulator::counters(0).allocations, lead.allocations);
  EXPECT_EQ(emulator::counters(1).allocations, other.allocations + 1)
      << "the latents";
  expect_same(ensemble.take_outputs(), want);
}

TEST_F(DeviceTeamTest, EndsWithTheErrorOfARankAndGoesOn) {
  for (int nth = 1; nth < 40; nth += 20) {
    Draw draw(2);
    set_up(3, static_cast<unsigned>(nth));
    Ensemble ensemble(draw.network(3 * 128, DeviceKind::cuda), DType::bf16, 1,
                      {0, 1, 2});
    const std::vector<Tensor> want = ensemble.alone();
    emulator::fail_call("cuStreamWaitValue32", cudaErrorInvalidValue, nth);
    bool failed = false;
    for (int pass = 0; pass < 40 && !failed; ++pass) {
      try {
        expect_same(ensemble.together(), want);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::internal) << error.what();
        EXPECT_EQ(error.place(), "wait for another queue");
        failed = true;
      }
    }
    EXPECT_TRUE(failed);
    expect_same(ensemble.together(), want);
  }
}

TEST_F(DeviceTeamTest, JoinsAnotherGroupAfterAnExchangeThatFailed) {
  for (int nth = 1; nth < 30; nth += 14) {
    SCOPED_TRACE("group " + std::to_string(nth));
    Draw draw(4);
    set_up(3, static_cast<unsigned>(nth));
    Ensemble ensemble(draw.network(3 * 128, DeviceKind::cuda), DType::bf16, 1,
                      {0, 1, 2}, AttentionPlan::ulysses, GpuExchange::nccl);
    const std::vector<Tensor> want = ensemble.alone();
    emulator::set_nccl_faults({.failing_rank = nth % 3, .failing_group = nth});
    bool has_failed = false;
    for (int pass = 0; pass < 30 && !has_failed; ++pass) {
      try {
        expect_same(ensemble.together(), want);
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("NCCL says"),
                  std::string::npos)
            << error.what();
        has_failed = true;
      }
    }
    EXPECT_TRUE(has_failed);
    emulator::set_nccl_faults({});
    for (int pass = 0; pass < 3; ++pass) {
      expect_same(ensemble.together(), want);
    }
  }
}

// NCCL may still write to the memory of a GPU that it does not let go of. Such
// memory is never released, so the test runs in a process of its own.
TEST_F(DeviceTeamTest, LosesGpusWhoseMemoryNcclKeeps) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto lose = [] {
    Draw draw(4);
    set_up(2, 1);
    Ensemble ensemble(some_network(draw), DType::bf16, 1, {0, 1},
                      AttentionPlan::gather, GpuExchange::nccl);
    emulator::set_nccl_faults(
        {.failing_rank = 1, .failing_group = 2, .aborts_hang = true});
    const Error error = error_of(ensemble);
    std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(error.code() == Errc::device_lost &&
                       !ensemble.team().can_run_again()
                   ? 0
                   : 1);
  };
  EXPECT_EXIT(lose(), testing::ExitedWithCode(0),
              "cuda:0.*NCCL does not let go of its memory");
}

// The next pass has a group.
TEST_F(DeviceTeamTest, EndsWithARankThatCannotJoin) {
  Draw draw(4);
  set_up(2, 2);
  Ensemble ensemble(some_network(draw), DType::bf16, 1, {0, 1},
                    AttentionPlan::gather, GpuExchange::nccl);
  const std::vector<Tensor> want = ensemble.alone();
  emulator::fail_call("cudaStreamCreateWithFlags", cudaErrorInvalidValue);
  EXPECT_EQ(error_of(ensemble).code(), Errc::device_lost);
  expect_same(ensemble.together(), want);
}

TEST_F(DeviceTeamTest, NamesTheDeviceThatIsLost) {
  for (int lost = 0; lost < 2; ++lost) {
    for (int after = 0; after < 60; after += 25) {
      Draw draw(3);
      set_up(2, static_cast<unsigned>(after));
      Ensemble ensemble(some_network(draw), DType::bf16, 1, {0, 1});
      (void)ensemble.alone();
      emulator::lose_device(lost, static_cast<std::uint64_t>(after));
      const Error error = error_of(ensemble);
      EXPECT_EQ(error.code(), Errc::device_lost) << error.what();
      EXPECT_EQ(error.place(), to_string(gpu(lost))) << error.what();
    }
  }
}

TEST_F(DeviceTeamTest, StopsWithItsLead) {
  Draw draw(4);
  set_up(2, 4);
  Ensemble ensemble(some_network(draw), DType::bf16, 2, {0, 1});
  const std::vector<Tensor> want = ensemble.alone();
  const std::uint64_t before = ensemble.lead().ticks();
  ensemble.lead().request_stop();
  EXPECT_EQ(error_of(ensemble).code(), Errc::interrupted);
  EXPECT_LE(ensemble.lead().ticks(), before + 1);
  ensemble.lead().clear_stop();
  expect_same(ensemble.together(), want);
}

}  // namespace
}  // namespace troupe::actors

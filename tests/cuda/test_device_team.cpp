// Ranks on emulated GPUs compute a pass together: the bytes of one, and errors
// that end the pass of all.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/device_team.h"
#include "tests/actors/drawn_networks.h"
#include "tests/cuda/emulator/blas.h"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/emulator/faults.h"

namespace troupe::actors {
namespace {

Device gpu(int index) { return {DeviceKind::cuda, index}; }

/// A team whose ranks have a device each, or share one, and a network on all of
/// these devices.
class Ensemble {
 public:
  /// devices: of each rank; the first one is the lead's.
  Ensemble(const Drawn& drawn, DType compute, std::int64_t rows,
           const std::vector<int>& devices)
      : lead_(1, gpu(devices[0])) {
    for (const int device : std::set<int>(devices.begin(), devices.end())) {
      ExecContext ctx(1, gpu(device));
      models::RandomWeights weights(ctx, 7);
      Copy& copy = copies_[device];
      copy.network = drawn.network->load(ctx, compute, weights);
      copy.rows = std::make_unique<Rows>(ctx, drawn, *copy.network, rows);
      ctx.synchronize();
    }
    std::vector<Device> others;
    for (std::size_t r = 1; r < devices.size(); ++r) {
      others.push_back(gpu(devices[r]));
    }
    team_ = std::make_unique<DeviceTeam>(lead_, others, DeviceOptions{});
  }

  [[nodiscard]] ExecContext& lead() { return lead_; }
  [[nodiscard]] DeviceTeam& team() { return *team_; }
  [[nodiscard]] const Denoiser& network(const ExecContext& ctx) const {
    return *copies_.at(ctx.device().index).network;
  }
  /// Latents and outputs are the lead's; conditions are of each device.
  [[nodiscard]] Batch batch(const ExecContext& ctx) const {
    const Rows& here = *copies_.at(ctx.device().index).rows;
    return {shared().latents, here.timesteps, here.conditions,
            here.latent_shape};
  }
  [[nodiscard]] Rows& shared() const {
    return *copies_.at(lead_.device().index).rows;
  }
  /// What the outputs hold; they are then poisoned.
  [[nodiscard]] std::vector<Tensor> take_outputs() {
    std::vector<Tensor> taken;
    for (Tensor& output : shared().outputs) {
      taken.push_back(kernels::on_host(lead_, output));
      Tensor nothing(output.shape(), DType::f32);
      std::fill_n(nothing.data<float>(), nothing.num_elements(), -1.0F);
      kernels::copy(lead_, nothing, output);
    }
    return taken;
  }

  [[nodiscard]] std::vector<Tensor> alone() {
    ShardContext whole;
    network(lead_).predict(lead_, whole, batch(lead_), shared().outputs);
    return take_outputs();
  }
  /// Errors: those of the pass.
  [[nodiscard]] std::vector<Tensor> together() {
    team_->run([this](ExecContext& ctx, ShardContext& shard) {
      network(ctx).predict(ctx, shard, batch(ctx), shared().outputs);
    });
    return take_outputs();
  }
  /// The same, cut in front of a block.
  [[nodiscard]] std::vector<Tensor> together_cut(int cut) {
    const int end = static_cast<int>(network(lead_).info().blocks.size());
    std::vector<Boundary> boundaries(shared().latents.size());
    team_->run([&](ExecContext& ctx, ShardContext& shard) {
      network(ctx).embed(ctx, shard, batch(ctx), boundaries);
      network(ctx).run_blocks(ctx, shard, batch(ctx), 0, cut, boundaries);
    });
    for (const Boundary& boundary : boundaries) {
      for (const NamedTensor& one : boundary) {
        EXPECT_EQ(one.tensor.device(), lead_.device());
      }
    }
    team_->run([&](ExecContext& ctx, ShardContext& shard) {
      network(ctx).run_blocks(ctx, shard, batch(ctx), cut, end, boundaries);
      network(ctx).finish(ctx, shard, batch(ctx), boundaries, shared().outputs);
    });
    return take_outputs();
  }

 private:
  struct Copy {
    std::unique_ptr<const Denoiser> network;
    std::unique_ptr<Rows> rows;
  };
  ExecContext lead_;
  std::map<int, Copy> copies_;
  std::unique_ptr<DeviceTeam> team_;
};

void expect_same(const std::vector<Tensor>& got,
                 const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(bytes_equal(got[i], want[i])) << "row " << i;
  }
}

/// Emulated GPUs whose work runs late, in an order drawn from the seed.
class DeviceTeamTest : public testing::Test {
 protected:
  static void set_up(int gpus, unsigned seed, bool peer_access = true) {
    emulator::Config config = emulator::default_config();
    config.devices = gpus;
    config.peer_access = peer_access;
    config.seed = seed + 1;
    emulator::configure(config);
    // Others compute other bits for fewer rows.
    emulator::set_blas_behaviour({.order = {emulator::BlasAlgorithm::steady}});
  }
  void TearDown() override {
    emulator::configure(emulator::default_config());
    emulator::set_blas_behaviour({});
  }
};

// Networks, sizes, ranks, GPUs, shares, cuts and orders of work are drawn.
TEST_F(DeviceTeamTest, GivesTheBytesOfOneDevice) {
  const int cases = num_cases(3);
  for (int seed = 0; seed < cases; ++seed) {
    Draw draw(static_cast<unsigned>(seed));
    const int ranks = static_cast<int>(draw.number(2, 4));
    const int gpus = static_cast<int>(draw.number(1, ranks));
    set_up(gpus, static_cast<unsigned>(seed), draw.coin());
    std::vector<int> devices;
    for (int r = 0; r < ranks; ++r) {
      devices.push_back(r % gpus);
    }
    const Drawn drawn = draw.network(128 * ranks, DeviceKind::cuda);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + drawn.what + " " +
                 to_string(drawn.latents) + ", " + std::to_string(ranks) +
                 " ranks on " + std::to_string(gpus) + " GPUs");
    Ensemble ensemble(drawn, DType::bf16, draw.number(1, 2), devices);
    if (draw.coin()) {
      ensemble.team().fix_shares(draw.shares(ranks));
    }
    const std::vector<Tensor> want = ensemble.alone();
    for (int pass = 0; pass < 2; ++pass) {
      expect_same(ensemble.together(), want);
    }
    const auto blocks = ensemble.network(ensemble.lead()).info().blocks.size();
    expect_same(ensemble.together_cut(static_cast<int>(
                    draw.number(0, static_cast<std::int64_t>(blocks)))),
                want);
  }
}

/// Two ranks of an ordinary network.
Drawn some_network(Draw& draw) {
  return draw.network(2 * 128, DeviceKind::cuda);
}

Error error_of(Ensemble& ensemble) {
  try {
    (void)ensemble.together();
  } catch (const Error& error) {
    return error;
  }
  return {Errc::internal, "", "no error"};
}

TEST_F(DeviceTeamTest, RefusesWhatHasOtherBytes) {
  Draw draw(0);
  const Drawn drawn = some_network(draw);
  const auto refusal = [&](DType compute) {
    Ensemble ensemble(drawn, compute, 1, {0, 1});
    const std::vector<Tensor> want = ensemble.alone();
    const Error error = error_of(ensemble);
    EXPECT_EQ(error.code(), Errc::unsupported) << error.what();
    expect_same(ensemble.alone(), want);
    return error;
  };
  set_up(2, 0);
  // Attention in f32 is two products, whose algorithms see all rows.
  EXPECT_NE(refusal(DType::f32).hint().find("use --dtype bf16"),
            std::string::npos);
  emulator::set_blas_behaviour(
      {.order = {emulator::BlasAlgorithm::by_columns}});
  EXPECT_EQ(refusal(DType::bf16).place(), "matmul");
}

TEST_F(DeviceTeamTest, LetsNoHostWaitInsideAPass) {
  Draw draw(1);
  set_up(2, 1);
  Ensemble ensemble(some_network(draw), DType::bf16, 1, {0, 1});
  const std::vector<Tensor> want = ensemble.alone();
  expect_same(ensemble.together(), want);
  const emulator::Counters lead = emulator::counters(0);
  const emulator::Counters other = emulator::counters(1);
  ensemble.team().run([&](ExecContext& ctx, ShardContext& shard) {
    ensemble.network(ctx).predict(ctx, shard, ensemble.batch(ctx),
                                  ensemble.shared().outputs);
  });
  EXPECT_EQ(emulator::counters(0).host_waits, lead.host_waits);
  EXPECT_EQ(emulator::counters(1).host_waits, other.host_waits + 1)
      << "at the end";
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
    emulator::fail_call("cudaStreamWaitEvent", cudaErrorInvalidValue, nth);
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

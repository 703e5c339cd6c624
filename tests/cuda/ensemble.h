#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "actors/device_team.h"
#include "tests/actors/drawn_networks.h"
#include "tests/cuda/emulator/blas.h"
#include "tests/cuda/emulator/emulator.h"

// A team of emulated GPUs with a network.

namespace troupe::actors {

inline Device gpu(int index) { return {DeviceKind::cuda, index}; }

/// For tests in which no queue stands still, however slow it is.
inline DeviceTeam::Patience endless_patience() {
  constexpr std::chrono::hours kEndless(1);
  return {.least = kEndless, .unmeasured = kEndless};
}

/// A team whose ranks have a device each, or share one, and a network on all of
/// these devices.
class Ensemble {
 public:
  /// devices: of each rank; the first one is the lead's.
  Ensemble(const Drawn& drawn, DType compute, std::int64_t rows,
           const std::vector<int>& devices,
           AttentionPlan plan = AttentionPlan::gather,
           GpuExchange exchange = GpuExchange::peer)
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
    team_ = std::make_unique<DeviceTeam>(lead_, others, DeviceOptions{}, plan,
                                         exchange);
    // Emulated queues run while the host looks at them, and are slow beside
    // other tests.
    DeviceTeam::Patience patience;
    patience.grace = std::chrono::seconds(5);
    team_->set_patience(patience);
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
  /// For the team. It refers to this.
  [[nodiscard]] ShardTeam::Pass pass() {
    return [this](ExecContext& ctx, ShardContext& shard) {
      network(ctx).predict(ctx, shard, batch(ctx), shared().outputs);
    };
  }
  /// Errors: those of the pass.
  [[nodiscard]] std::vector<Tensor> together() {
    team_->run(pass());
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

/// A loss of the lead may show only where the outputs are read.
inline Error error_of(Ensemble& ensemble) {
  return error_of([&] { (void)ensemble.together(); });
}

inline void expect_same(const std::vector<Tensor>& got,
                        const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(bytes_equal(got[i], want[i])) << "row " << i;
  }
}

/// Emulated GPUs whose work runs late, in an order drawn from the seed.
class EmulatedTeam : public testing::Test {
 protected:
  static void set_up(int gpus, unsigned seed, bool peer_access = true) {
    emulator::Config config = emulator::default_config();
    config.devices = gpus;
    config.peer_access = peer_access;
    config.seed = seed + 1;
    emulator::configure(config);
    // Others compute other bits for fewer rows. Products of attention do, too:
    // a shard runs those of the whole.
    emulator::set_blas_behaviour(
        {.order = {emulator::BlasAlgorithm::steady},
         .order_without_epilogue = {emulator::BlasAlgorithm::by_columns}});
  }
  void TearDown() override {
    emulator::configure(emulator::default_config());
    emulator::set_blas_behaviour({});
  }
};

}  // namespace troupe::actors

#include "actors/device_team.h"

#include <algorithm>
#include <utility>

#include "kernels/copy.h"

namespace troupe::actors {
namespace {

/// A rank's tensors may be used again two meetings later. Before a rank comes
/// to meeting g + 1, it has queued its copies of generation g, so its event of
/// meeting g + 1 stands behind these copies. Every rank's queue waits at g + 1
/// for the events of all other ranks. So a rank writes or releases tensors of
/// generation g + 2 only behind all copies of generation g. The same holds for
/// the host's events and tensors: other ranks read those of generation g before
/// they come to g + 1.
class DeviceRank final : public RankTeam::Rank {
 public:
  using Rank::Rank;

  /// All ranks of the team, in their order. To be set before the first pass.
  void set_peers(std::vector<const DeviceRank*> peers) {
    peers_ = std::move(peers);
  }

  [[nodiscard]] Tensor share(
      const Shape& shape, DType dtype,
      const std::function<SharedBlocks(int rank)>& of_rank) override {
    const std::int64_t bytes =
        shape.num_elements() * static_cast<std::int64_t>(size_of(dtype));
    std::vector<Slot>& slots = slots_[generation() % 2];
    const std::size_t index = begin_share();
    if (index == slots.size()) {
      slots.emplace_back();
    }
    Slot& slot = slots[index];
    if (slot.memory.empty() || slot.memory.num_elements() < bytes) {
      slot.memory = {};
      slot.memory = ctx().empty({bytes}, DType::u8);
    }
    slot.all = {slot.memory.owner(), shape, dtype, ctx().device()};
    const SharedBlocks mine = of_rank(rank());
    slot.taken.assign(peers_.size(), {});
    for (int peer = 0; peer < world_size(); ++peer) {
      if (peer == rank()) {
        continue;
      }
      // Whole rows: elements that this rank does not read come along.
      for (const SharedBlock& block : common_blocks(of_rank(peer), mine)) {
        slot.taken[static_cast<std::size_t>(peer)].push_back(block.rows);
      }
    }
    return slot.all;
  }

 protected:
  void leave() override { event_now() = ctx().device_backend()->mark(); }

  /// An event that is not recorded yet holds up nobody, so the waits are queued
  /// once all ranks have come.
  void take() override {
    const auto parity = static_cast<std::size_t>(generation() % 2);
    // Ranks begin with different peers, so that all links are used.
    for (std::size_t i = 1; i < peers_.size(); ++i) {
      const std::size_t p =
          (static_cast<std::size_t>(rank()) + i) % peers_.size();
      const DeviceRank& peer = *peers_[p];
      ctx().device_backend()->wait_for(*peer.events_[parity]);
      for (std::size_t s = 0; s < num_shared(); ++s) {
        const Slot& mine = slots_[parity][s];
        for (const RowRange& rows : mine.taken[p]) {
          Tensor to = mine.all.slice(rows.begin, rows.end);
          kernels::copy(ctx(),
                        peer.slots_[parity][s].all.slice(rows.begin, rows.end),
                        to);
        }
      }
    }
  }

 private:
  struct Slot {
    Tensor memory;  // u8
    Tensor all;
    std::vector<std::vector<RowRange>> taken;  ///< from each rank
  };
  [[nodiscard]] std::unique_ptr<DeviceEvent>& event_now() {
    return events_[generation() % 2];
  }

  std::vector<const DeviceRank*> peers_;
  std::vector<Slot> slots_[2];
  std::unique_ptr<DeviceEvent> events_[2];  ///< of the last two meetings
};

std::vector<std::shared_ptr<ExecContext>> make_contexts(
    ExecContext& lead, std::span<const Device> others,
    const DeviceOptions& options) {
  std::vector<std::shared_ptr<ExecContext>> contexts = {
      {std::shared_ptr<void>(), &lead}};
  for (const Device& device : others) {
    contexts.push_back(std::make_shared<ExecContext>(1, device, options));
  }
  return contexts;
}

std::vector<std::unique_ptr<RankTeam::Rank>> make_ranks(
    const std::vector<std::shared_ptr<ExecContext>>& contexts) {
  std::vector<std::unique_ptr<RankTeam::Rank>> ranks;
  std::vector<DeviceRank*> all;
  for (const auto& ctx : contexts) {
    auto rank = std::make_unique<DeviceRank>(ctx);
    all.push_back(rank.get());
    ranks.push_back(std::move(rank));
  }
  for (DeviceRank* rank : all) {
    rank->set_peers({all.begin(), all.end()});
  }
  return ranks;
}

}  // namespace

DeviceTeam::DeviceTeam(ExecContext& lead, std::span<const Device> others,
                       const DeviceOptions& options)
    : DeviceTeam(make_contexts(lead, others, options)) {}

DeviceTeam::DeviceTeam(Contexts contexts)
    : RankTeam(make_ranks(contexts), AttentionPlan::gather, false),
      contexts_(std::move(contexts)) {}

DeviceTeam::~DeviceTeam() {
  try {
    end_queues();  // the lead's may still read tensors of others
  } catch (...) {
    // A lost device reads nothing any more.
  }
}

void DeviceTeam::run(const Pass& pass) {
  try {
    const auto queued = contexts_[0]->device_backend()->mark();
    RankTeam::run([&](ExecContext& ctx, ShardContext& shard) {
      if (shard.rank() == 0) {
        return pass(ctx, shard);
      }
      ctx.device_backend()->wait_for(*queued);
      pass(ctx, shard);
      ctx.synchronize();  // a device that is lost says so
    });
  } catch (...) {
    end_queues();
    throw;
  }
}

std::vector<Device> DeviceTeam::other_devices() const {
  std::vector<Device> devices;
  for (std::size_t r = 1; r < contexts_.size(); ++r) {
    devices.push_back(contexts_[r]->device());
  }
  return devices;
}

void DeviceTeam::end_queues() const {
  std::exception_ptr lost;
  for (const auto& ctx : contexts_) {
    try {
      ctx->synchronize();
    } catch (...) {
      lost = lost ? lost : std::current_exception();
    }
  }
  if (lost) {
    std::rethrow_exception(lost);
  }
}

}  // namespace troupe::actors

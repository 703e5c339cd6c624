#include "actors/thread_team.h"

#include <algorithm>
#include <utility>

namespace troupe::actors {
namespace {

/// What all ranks get for their calls of `share`. Thread: any.
class SharedSlots {
 public:
  [[nodiscard]] Tensor get(std::int64_t generation, std::size_t index,
                           const Shape& shape, DType dtype) {
    const std::int64_t bytes =
        shape.num_elements() * static_cast<std::int64_t>(size_of(dtype));
    const std::lock_guard lock(mutex_);
    std::vector<Slot>& slots = slots_[generation % 2];
    if (index == slots.size()) {
      slots.emplace_back();
    }
    Slot& slot = slots[index];
    if (slot.generation != generation) {  // the first rank to ask
      slot.generation = generation;
      if (slot.memory.empty() || slot.memory.num_elements() < bytes) {
        slot.memory = {};
        slot.memory = Tensor({bytes}, DType::u8);
      }
    }
    return {slot.memory.owner(), shape, dtype, {}};
  }

 private:
  struct Slot {
    Tensor memory;  // u8
    std::int64_t generation = -1;
  };
  std::mutex mutex_;
  /// Two generations: of one all ranks may still read while they write the
  /// next.
  std::vector<Slot> slots_[2];
};

class ThreadRank final : public RankTeam::Rank {
 public:
  ThreadRank(std::shared_ptr<ExecContext> ctx,
             std::shared_ptr<SharedSlots> slots)
      : Rank(std::move(ctx)), slots_(std::move(slots)) {}

  /// All ranks share one memory, so no block is copied.
  [[nodiscard]] Tensor share(
      const Shape& shape, DType dtype,
      const std::function<SharedBlocks(int rank)>& /*of_rank*/) override {
    return slots_->get(generation(), begin_share(), shape, dtype);
  }

 private:
  std::shared_ptr<SharedSlots> slots_;
};

std::vector<std::unique_ptr<RankTeam::Rank>> make_ranks(ExecContext& lead,
                                                        int count) {
  const int threads = std::max(lead.num_threads() / count, 1);
  const auto slots = std::make_shared<SharedSlots>();
  std::vector<std::unique_ptr<RankTeam::Rank>> ranks;
  for (int r = 0; r < count; ++r) {
    auto ctx = std::make_shared<ExecContext>(threads);
    if (r == 0) {
      ctx->follow(lead);
    }
    ranks.push_back(std::make_unique<ThreadRank>(std::move(ctx), slots));
  }
  return ranks;
}

}  // namespace

ThreadTeam::ThreadTeam(ExecContext& lead, int ranks, AttentionPlan plan)
    : RankTeam(make_ranks(lead, ranks), plan, true) {}

}  // namespace troupe::actors

#include "models/network/parted_denoiser.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/system/machine.h"

namespace troupe::models {

/// A condition, ready for each part that was used.
class PartedDenoiser::Prepared final : public PreparedCondition {
 public:
  Prepared(Condition condition, std::span<const double> timesteps,
           std::size_t num_parts, std::size_t num_bytes)
      : condition_(std::move(condition)),
        timesteps_(timesteps.begin(), timesteps.end()),
        num_bytes_(num_bytes),
        of_parts_(num_parts) {}

  /// Of all parts.
  [[nodiscard]] std::size_t num_bytes() const override { return num_bytes_; }

  [[nodiscard]] PreparedPtr of(ExecContext& ctx, std::size_t part,
                               const Denoiser& network) const {
    const std::lock_guard lock(mutex_);
    PreparedPtr& its = of_parts_[part];
    if (!its) {
      its = network.prepare(ctx, condition_, timesteps_);
    }
    return its;
  }

 private:
  Condition condition_;
  std::vector<double> timesteps_;
  std::size_t num_bytes_;
  mutable std::mutex mutex_;
  mutable std::vector<PreparedPtr> of_parts_;
};

/// The rows of a batch for one part.
struct PartedDenoiser::PartRows {
  std::shared_ptr<const Denoiser> network;
  std::vector<PreparedPtr> prepared;  ///< what `conditions` point to
  std::vector<const PreparedCondition*> conditions;
  Batch batch;
};

PartedDenoiser::PartedDenoiser(DenoiserInfo info, std::vector<int> cuts,
                               const Read& read)
    : info_(std::move(info)) {
  const bool is_whole = cuts.size() >= 2 && cuts.front() == 0 &&
                        cuts.back() == static_cast<int>(info_.blocks.size());
  require(is_whole && std::ranges::is_sorted(cuts, std::less_equal<>()),
          Errc::invalid_argument, "parts",
          "expected cuts from 0 to " + std::to_string(info_.blocks.size()));
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const SegmentRange blocks{cuts[i], cuts[i + 1]};
    auto part = std::make_unique<Part>();
    part->blocks = blocks;
    part->network =
        std::make_unique<FirstUse<Denoiser>>([read, blocks](ExecContext& ctx) {
          auto network = read(ctx, blocks);
          return_free_memory();  // what reading and packing took
          return network;
        });
    parts_.push_back(std::move(part));
  }
}

PreparedPtr PartedDenoiser::prepare(ExecContext& /*ctx*/,
                                    const Condition& condition,
                                    std::span<const double> timesteps) const {
  return std::make_shared<Prepared>(
      condition, timesteps, parts_.size(),
      info_.bytes_per_timestep * timesteps.size());
}

PartedDenoiser::PartRows PartedDenoiser::rows_of(ExecContext& ctx,
                                                 ShardContext& shard,
                                                 std::size_t part,
                                                 const Batch& batch) const {
  if (shard.rank() > 0) {
    shard.meet();
    return read_rows(ctx, part, batch);
  }
  count_pass(part);
  PartRows rows = read_rows(ctx, part, batch);
  shard.meet();
  return rows;
}

void PartedDenoiser::count_pass(std::size_t part) const {
  const std::uint64_t pass = ++passes_;
  parts_[part]->last_pass = pass;
  for (const auto& other : parts_) {
    if (other->last_pass + kPassesKept < pass && other->network->let_go()) {
      return_free_memory();
    }
  }
}

PartedDenoiser::PartRows PartedDenoiser::read_rows(ExecContext& ctx,
                                                   std::size_t part,
                                                   const Batch& batch) const {
  PartRows rows;
  rows.network = parts_[part]->network->get(ctx);
  for (const PreparedCondition* condition : batch.conditions) {
    rows.prepared.push_back(
        static_cast<const Prepared*>(condition)->of(ctx, part, *rows.network));
    rows.conditions.push_back(rows.prepared.back().get());
  }
  rows.batch = {batch.latents, batch.timesteps, rows.conditions,
                batch.latent_shape, batch.ring_blocks};
  return rows;
}

void PartedDenoiser::predict(ExecContext& ctx, ShardContext& shard,
                             const Batch& batch,
                             std::span<Tensor> outputs) const {
  if (shard.rank() > 0) {
    return;  // the ranks would have to share the boundaries
  }
  ShardContext whole;
  std::vector<Boundary> boundaries(batch.timesteps.size());
  embed(ctx, whole, batch, boundaries);
  run_blocks(ctx, whole, batch, 0, parts_.back()->blocks.end, boundaries);
  finish(ctx, whole, batch, boundaries, outputs);
}

void PartedDenoiser::embed(ExecContext& ctx, ShardContext& shard,
                           const Batch& batch,
                           std::span<Boundary> boundaries) const {
  const PartRows rows = rows_of(ctx, shard, 0, batch);
  rows.network->embed(ctx, shard, rows.batch, boundaries);
}

void PartedDenoiser::run_blocks(ExecContext& ctx, ShardContext& shard,
                                const Batch& batch, int begin, int end,
                                std::span<Boundary> boundaries) const {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const int first = std::max(begin, parts_[i]->blocks.begin);
    const int last = std::min(end, parts_[i]->blocks.end);
    if (first < last) {
      const PartRows rows = rows_of(ctx, shard, i, batch);
      rows.network->run_blocks(ctx, shard, rows.batch, first, last, boundaries);
    }
  }
}

void PartedDenoiser::finish(ExecContext& ctx, ShardContext& shard,
                            const Batch& batch,
                            std::span<const Boundary> boundaries,
                            std::span<Tensor> outputs) const {
  const PartRows rows = rows_of(ctx, shard, parts_.size() - 1, batch);
  rows.network->finish(ctx, shard, rows.batch, boundaries, outputs);
}

}  // namespace troupe::models

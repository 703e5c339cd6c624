#include "models/network/network.h"

#include <algorithm>
#include <utility>

#include "kernels/copy.h"
#include "models/network/image_pass.h"

namespace troupe::models {

Tensor Prepared::find(double timestep) const {
  const auto found = std::ranges::lower_bound(timesteps, timestep);
  if (found == timesteps.end() || *found != timestep) {
    return {};
  }
  return table.item(found - timesteps.begin());
}

std::size_t Prepared::num_bytes() const {
  return vector.num_bytes() + memory.num_bytes() + table.num_bytes();
}

SegmentRange Network::own_stages() const noexcept {
  const SegmentRange own = segment();
  return {own.begin == 0 ? 0 : own.begin + 1,
          own.end == num_blocks() ? own.end + 2 : own.end + 1};
}

std::int64_t Network::columns_between(int begin, int end) const {
  std::int64_t sum = 0;
  for (int stage = begin; stage < end; ++stage) {
    sum += columns(stage);
  }
  return sum;
}

std::int64_t Network::table_width() const {
  return columns_between(own_stages().begin, own_stages().end);
}

void Network::modulate(ExecContext& ctx, std::span<const Tensor> rows,
                       int begin, int /*end*/, Tensor& modulation) const {
  const std::int64_t first = columns_between(own_stages().begin, begin);
  std::vector<Tensor> parts;
  for (const Tensor& row : rows) {
    parts.push_back(row.slice(first, first + modulation.dim(1)));
  }
  kernels::gather(ctx, parts, modulation);
}

RowRange Network::own(const ShardContext& shard, std::int64_t rows) const {
  return layout_.sharding == Sharding::pixels
             ? ImagePass::pixels_of(shard, shard.rank(), rows)
             : shard.own(rows);
}

void Network::fetch(ExecContext& ctx, int block, int next) const {
  if (!offloaded_.empty()) {
    offloaded_.fetch(ctx, 2 * static_cast<std::size_t>(block - segment().begin),
                     2 * static_cast<std::size_t>(next - segment().begin));
  }
}

void Network::fetch_prepared(ExecContext& ctx, int block) const {
  if (!offloaded_.empty()) {
    const int next = std::min(block + 1, segment().end - 1);
    offloaded_.fetch(ctx,
                     2 * static_cast<std::size_t>(block - segment().begin) + 1,
                     2 * static_cast<std::size_t>(next - segment().begin) + 1);
  }
}

}  // namespace troupe::models

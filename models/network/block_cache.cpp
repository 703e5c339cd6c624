#include "models/network/block_cache.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "kernels/elementwise.h"
#include "kernels/reduction.h"

namespace troupe::models {
namespace {

constexpr int kFirstBlocks = 1;

/// out = a + factor · b. `out` may be one of them.
void add(ExecContext& ctx, const Tensor& a, double factor, const Tensor& b,
         Tensor& out) {
  const kernels::Term terms[] = {{1.0, &a}, {factor, &b}};
  kernels::combine(ctx, terms, out);
}

/// Runs blocks, and returns what they added to the streams of each row.
std::vector<Boundary> run(ExecContext& ctx, const Denoiser& denoiser,
                          const Batch& batch, int begin, int end,
                          std::span<Boundary> hidden) {
  std::vector<Boundary> added;
  for (const Boundary& row : hidden) {
    Boundary& before = added.emplace_back(row);
    for (NamedTensor& stream : before) {
      stream.tensor = kernels::clone(ctx, stream.tensor);
    }
  }
  ShardContext whole;
  denoiser.run_blocks(ctx, whole, batch, begin, end, hidden);
  for (std::size_t i = 0; i < added.size(); ++i) {
    for (std::size_t s = 0; s < added[i].size(); ++s) {
      Tensor& before = added[i][s].tensor;
      add(ctx, hidden[i][s].tensor, -1.0, before, before);
    }
  }
  return added;
}

/// The rows of one group, in `hidden` and the like.
struct Place {
  CachedRows* group;
  std::size_t begin;
  std::size_t tensors;  ///< of its cache
};

/// A cache holds for each row the streams of `first`, then those of the rest.
void mark_reused(ExecContext& ctx, std::span<const Boundary> first,
                 std::span<const Place> places) {
  const std::size_t streams = first.front().size();
  kernels::Readings readings(ctx, 2 * streams * first.size());
  for (const auto& [group, begin, tensors] : places) {
    for (std::size_t i = 0; group->cache.size() == tensors && i < group->size;
         ++i) {
      for (std::size_t s = 0; s < streams; ++s) {
        const Tensor& cached = group->cache[2 * i * streams + s].tensor;
        readings.sum_squared_difference(first[begin + i][s].tensor, cached);
        readings.sum_squares(cached);
      }
    }
  }
  const std::span<const double> values = readings.wait();
  std::size_t next = 0;
  for (const auto& [group, begin, tensors] : places) {
    group->is_reused = false;
    if (group->cache.size() != tensors) {
      continue;
    }
    double difference = 0;
    double norm = 0;
    for (std::size_t i = 0; i < group->size * streams; ++i, next += 2) {
      difference += values[next];
      norm += values[next + 1];
    }
    group->is_reused =
        std::sqrt(difference) < group->threshold * std::sqrt(norm);
  }
}

}  // namespace

bool can_leave_out_blocks(const DenoiserInfo& info) {
  return info.blocks.size() > kFirstBlocks && info.skips.empty() &&
         std::ranges::all_of(info.blocks, [&](const BlockInfo& block) {
           return block.hidden_bytes == info.blocks.front().hidden_bytes;
         });
}

std::size_t cache_bytes(const DenoiserInfo& info) {
  return 2 * info.hidden_bytes(0);
}

void predict_cached(ExecContext& ctx, const Denoiser& denoiser,
                    const Batch& batch, std::span<CachedRows> groups,
                    std::span<Tensor> outputs) {
  require(can_leave_out_blocks(denoiser.info()), Errc::unsupported,
          denoiser.info().class_name, "blocks of it cannot be left out");
  if (groups.empty()) {
    return;
  }
  const int num_blocks = static_cast<int>(denoiser.info().blocks.size());
  ShardContext whole;
  std::vector<Boundary> hidden(batch.timesteps.size());
  denoiser.embed(ctx, whole, batch, hidden);
  std::vector<Boundary> first =
      run(ctx, denoiser, batch, 0, kFirstBlocks, hidden);
  const std::size_t streams = first.front().size();
  std::vector<Place> places;
  std::size_t begin = 0;
  for (CachedRows& group : groups) {
    places.push_back({&group, begin, 2 * streams * group.size});
    begin += group.size;
  }
  mark_reused(ctx, first, places);

  std::vector<std::size_t> computed;  // rows
  for (const auto& [group, begin, tensors] : places) {
    for (std::size_t i = 0; i < group->size; ++i) {
      const std::size_t row = begin + i;
      if (!group->is_reused) {
        computed.push_back(row);
        continue;
      }
      for (std::size_t s = 0; s < streams; ++s) {
        Tensor& x = hidden[row][s].tensor;
        add(ctx, x, 1.0, group->cache[(2 * i + 1) * streams + s].tensor, x);
      }
    }
  }
  std::vector<double> timesteps;
  std::vector<const PreparedCondition*> conditions;
  std::vector<Boundary> others;
  for (const std::size_t row : computed) {
    timesteps.push_back(batch.timesteps[row]);
    conditions.push_back(batch.conditions[row]);
    others.push_back(std::move(hidden[row]));
  }
  std::vector<Boundary> rest =
      run(ctx, denoiser,
          {{}, timesteps, conditions, batch.latent_shape, batch.ring_blocks},
          kFirstBlocks, num_blocks, others);
  for (std::size_t i = 0; i < computed.size(); ++i) {
    hidden[computed[i]] = std::move(others[i]);
  }
  denoiser.finish(ctx, whole, batch, hidden, outputs);

  std::size_t next = 0;
  for (const auto& [group, begin, tensors] : places) {
    if (group->is_reused) {
      continue;
    }
    group->cache.clear();
    for (std::size_t i = 0; i < group->size; ++i, ++next) {
      for (Boundary* part : {&first[begin + i], &rest[next]}) {
        std::ranges::move(*part, std::back_inserter(group->cache));
      }
    }
  }
}

}  // namespace troupe::models

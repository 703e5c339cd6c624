#include <cmath>
#include <limits>

#include "models/network/block_cache.h"
#include "tests/models/helpers.h"
#include "tests/models/pixart_fixtures.h"

namespace troupe::models {
namespace {

constexpr double kAlways = std::numeric_limits<double>::max();

/// A pass over groups of `size` rows each, all with this threshold.
std::vector<CachedRows> groups_of(std::size_t count, double threshold,
                                  std::size_t size = 1) {
  std::vector<CachedRows> groups(count / size);
  for (CachedRows& group : groups) {
    group.size = size;
    group.threshold = threshold;
  }
  return groups;
}

std::vector<Tensor> run(ExecContext& ctx, const Denoiser& denoiser,
                        const Rows& rows, std::vector<CachedRows>& groups) {
  std::vector<Tensor> outputs = outputs_for(denoiser, rows.latents);
  predict_cached(ctx, denoiser, rows.batch(), groups, outputs);
  return outputs;
}

/// The rows of `which` alone.
Rows some(ExecContext& ctx, const Denoiser& dit, const Rows& rows,
          const std::vector<std::size_t>& which) {
  Rows few;
  for (const std::size_t i : which) {
    few.add(ctx, dit, rows.latents[i], rows.timesteps[i],
            static_cast<std::int64_t>(i) % 8);
  }
  return few;
}

/// As `small_rows`, a little later.
Rows later(ExecContext& ctx, const Denoiser& dit, const Rows& rows) {
  Rows next;
  for (std::size_t i = 0; i < rows.latents.size(); ++i) {
    Tensor x = rows.latents[i].clone();
    for (float& value : x.span<float>()) {
      value *= 0.99F;
    }
    next.add(ctx, dit, x, rows.timesteps[i] - 20,
             static_cast<std::int64_t>(i) % 8);
  }
  return next;
}

using BlockCache = DitTest;

TEST_P(BlockCache, OfThresholdZeroGivesTheBytesOfTheNetwork) {
  ExecContext ctx;
  const auto dit = small_dit(ctx, GetParam());
  const Rows rows = small_rows(ctx, *dit, 4);
  std::vector<CachedRows> groups = groups_of(4, 0, 2);
  for (int pass = 0; pass < 3; ++pass) {
    expect_same(run(ctx, *dit, rows, groups), predict(ctx, *dit, rows));
    for (const CachedRows& group : groups) {
      EXPECT_FALSE(group.is_reused);
      EXPECT_EQ(group.cache.size(), 4U);
      EXPECT_EQ(bytes_of(group.cache), 2 * cache_bytes(dit->info()));
    }
  }
}

TEST_P(BlockCache, ServesPixArtToo) {
  ExecContext ctx;
  const auto pixart = small_pixart(ctx, GetParam());
  const Rows rows = prompted_rows(ctx, *pixart, 3);
  std::vector<CachedRows> groups = groups_of(3, 0);
  expect_same(run(ctx, *pixart, rows, groups), predict(ctx, *pixart, rows));
}

// The same pass again: the first block adds the same, and so do the others, but
// for the rounding of what they added.
TEST_P(BlockCache, GivesNearlyTheSameOutputForTheSameRows) {
  ExecContext ctx;
  const auto dit = small_dit(ctx, GetParam());
  const Rows rows = small_rows(ctx, *dit, 3);
  std::vector<CachedRows> groups = groups_of(3, 1e-9);
  const auto expected = run(ctx, *dit, rows, groups);
  const auto again = run(ctx, *dit, rows, groups);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(groups[i].is_reused);
    EXPECT_LT(relative_error(again[i], expected[i]), 1e-2) << i;
  }
}

// With a limit that nothing exceeds, the first pass decides what is added.
TEST_P(BlockCache, WithoutLimitAddsWhatTheFirstPassAdded) {
  ExecContext ctx;
  ShardContext whole;
  const auto dit = small_dit(ctx, GetParam());
  const Rows rows = small_rows(ctx, *dit, 2);
  const Rows next = later(ctx, *dit, rows);
  std::vector<CachedRows> groups = groups_of(2, kAlways);
  (void)run(ctx, *dit, rows, groups);
  const std::vector<CachedRows> first = groups;
  for (int pass = 0; pass < 2; ++pass) {
    const auto got = run(ctx, *dit, next, groups);
    std::vector<Boundary> hidden(2);
    dit->embed(ctx, whole, next.batch(), hidden);
    dit->run_blocks(ctx, whole, next.batch(), 0, 1, hidden);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(groups[i].is_reused);
      for (std::size_t part = 0; part < 2; ++part) {
        EXPECT_TRUE(bytes_equal(groups[i].cache[part].tensor,
                                first[i].cache[part].tensor))
            << "it passes on unchanged";
      }
      Tensor& x = hidden[i][0].tensor;
      const Tensor& rest = first[i].cache[1].tensor;
      for (std::int64_t k = 0; k < x.num_elements(); ++k) {
        x.data<float>()[k] += rest.data<float>()[k];
      }
    }
    auto expected = outputs_for(*dit, next.latents);
    dit->finish(ctx, whole, next.batch(), hidden, expected);
    expect_same(got, expected);
  }
}

// Rows that leave out blocks and rows that do not share a pass, in any order
// and on any number of threads.
TEST_P(BlockCache, OfARowDoesNotDependOnTheRowsBesideIt) {
  ExecContext one(1);
  ExecContext three(3);
  const auto dit = small_dit(one, GetParam());
  const Rows rows = small_rows(one, *dit, 4);
  const Rows next = later(one, *dit, rows);
  std::vector<CachedRows> groups = groups_of(4, 0);
  (void)run(one, *dit, rows, groups);
  groups[0].threshold = groups[3].threshold = kAlways;
  std::vector<CachedRows> together = groups;
  const auto expected = run(one, *dit, next, together);
  EXPECT_TRUE(together[0].is_reused && together[3].is_reused);
  EXPECT_FALSE(together[1].is_reused || together[2].is_reused);
  for (const std::vector<std::size_t>& which :
       {std::vector<std::size_t>{0}, {1}, {3, 2}, {2, 0, 1}}) {
    std::vector<CachedRows> few;
    for (const std::size_t i : which) {
      few.push_back(groups[i]);
    }
    const auto got = run(three, *dit, some(three, *dit, next, which), few);
    for (std::size_t k = 0; k < which.size(); ++k) {
      EXPECT_TRUE(bytes_equal(got[k], expected[which[k]])) << which[k];
      EXPECT_EQ(few[k].is_reused, together[which[k]].is_reused);
      for (std::size_t part = 0; part < 2; ++part) {
        EXPECT_TRUE(bytes_equal(few[k].cache[part].tensor,
                                together[which[k]].cache[part].tensor));
      }
    }
  }
}

TEST_P(BlockCache, DecidesByTheDistanceOfAllRowsOfAGroup) {
  ExecContext ctx;
  const auto dit = small_dit(ctx, GetParam());
  const Rows rows = small_rows(ctx, *dit, 2);
  const Rows next = later(ctx, *dit, rows);
  std::vector<CachedRows> made = groups_of(2, 0, 2);
  (void)run(ctx, *dit, rows, made);
  const Boundary before = made[0].cache;
  std::vector<CachedRows> after = made;
  (void)run(ctx, *dit, next, after);
  double difference = 0;
  double norm = 0;
  for (const std::size_t part : {0, 2}) {
    for (std::int64_t k = 0; k < before[part].tensor.num_elements(); ++k) {
      const double x = after[0].cache[part].tensor.data<float>()[k];
      const double y = before[part].tensor.data<float>()[k];
      difference += (x - y) * (x - y);
      norm += y * y;
    }
  }
  const double distance = std::sqrt(difference / norm);
  ASSERT_GT(distance, 0);
  for (const double factor : {0.999, 1.001}) {
    std::vector<CachedRows> groups = made;
    groups[0].threshold = factor * distance;
    (void)run(ctx, *dit, next, groups);
    EXPECT_EQ(groups[0].is_reused, factor > 1) << factor;
  }
}

// Guidance may begin or end between two evaluations of a sample.
TEST_P(BlockCache, OfAnotherNumberOfRowsIsNone) {
  ExecContext ctx;
  const auto dit = small_dit(ctx, GetParam());
  const Rows rows = small_rows(ctx, *dit, 2);
  std::vector<CachedRows> both = groups_of(2, kAlways, 2);
  (void)run(ctx, *dit, rows, both);
  std::vector<CachedRows> alone = groups_of(1, kAlways);
  alone[0].cache = both[0].cache;
  const Rows first = some(ctx, *dit, rows, {0});
  expect_same(run(ctx, *dit, first, alone), predict(ctx, *dit, first));
  EXPECT_FALSE(alone[0].is_reused);
  EXPECT_EQ(alone[0].cache.size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Compute, BlockCache, testing::ValuesIn(dit_cases()),
                         name_of_dit);

TEST(BlocksCanBeLeftOut, OfAChainWithoutSkips) {
  DenoiserInfo info;
  info.blocks = {{1, 1, 64}};
  EXPECT_FALSE(can_leave_out_blocks(info)) << "one block";
  info.blocks.push_back({1, 1, 64});
  EXPECT_TRUE(can_leave_out_blocks(info));
  info.blocks.push_back({1, 1, 32});
  EXPECT_FALSE(can_leave_out_blocks(info)) << "another shape";
  info.blocks.pop_back();
  info.skips = {{1, 1, 64}};
  EXPECT_FALSE(can_leave_out_blocks(info));
}

}  // namespace
}  // namespace troupe::models

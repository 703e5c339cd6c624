// A network of two streams under the driver. The network was written for this
// test: every new network gets the cuts, forecasts and bits that hold here.

#include "models/network/boundary_skips.h"
#include "models/network/diagnose.h"
#include "tests/models/helpers.h"
#include "tests/models/pixart_fixtures.h"
#include "tests/models/two_streams.h"

namespace troupe::models {
namespace {

using two_streams::Description;

class TwoStreamsBits : public DitTest {
 protected:
  [[nodiscard]] static Description description() {
    return Description({.head_dim = GetParam().head_dim == 32 ? 48 : 12});
  }
  [[nodiscard]] static std::unique_ptr<Denoiser> make(
      ExecContext& ctx, SegmentRange segment = {}) {
    return load_random(ctx, description(), GetParam().compute, segment);
  }
  [[nodiscard]] static Rows rows_for(ExecContext& ctx, const Denoiser& network,
                                     int count) {
    Rows rows;
    for (int i = 0; i < count; ++i) {
      rows.add(ctx, network, latents_of_row(i, {4, 6, 5}), 900.0 - 100.0 * i,
               prompt(static_cast<std::uint64_t>(i), 7));
    }
    return rows;
  }
};

TEST_P(TwoStreamsBits, StayTheSameWhereverTheBlocksAreCut) {
  ExecContext ctx;
  ShardContext whole;
  const auto full = make(ctx);
  const auto expected = predict(ctx, *full, rows_for(ctx, *full, 6));
  const DenoiserInfo info = description().info({4, 6, 5}, GetParam().compute);
  for (int cut = 1; cut < 4; ++cut) {
    const auto first = make(ctx, {0, cut});
    const auto second = make(ctx, {cut, 4});
    const Rows of_first = rows_for(ctx, *first, 6);
    const Rows of_second = rows_for(ctx, *second, 6);
    std::vector<Boundary> boundaries(6);
    first->embed(ctx, whole, of_first.batch(), boundaries);
    first->run_blocks(ctx, whole, of_first.batch(), 0, cut, boundaries);
    EXPECT_EQ(bytes_of(boundaries[5]), info.boundary_bytes(cut)) << cut;
    second->run_blocks(ctx, whole, of_second.batch(), cut, 4, boundaries);
    auto outputs = outputs_for(*full, of_second.latents);
    second->finish(ctx, whole, of_second.batch(), boundaries, outputs);
    expect_same(outputs, expected);
  }
}

// As an onion: the outer segment keeps the skip.
TEST_P(TwoStreamsBits, StayTheSameWhereSkipsStayWithTheirMaker) {
  ExecContext ctx;
  ShardContext whole;
  const auto full = make(ctx);
  const Rows rows = rows_for(ctx, *full, 3);
  std::vector<Boundary> boundaries(3);
  full->embed(ctx, whole, rows.batch(), boundaries);
  full->run_blocks(ctx, whole, rows.batch(), 0, 1, boundaries);
  std::vector<Boundary> skips;
  for (Boundary& boundary : boundaries) {
    SplitBoundary parts = split_skips(boundary);
    ASSERT_EQ(parts.hidden.size(), 2U);
    skips.push_back(std::move(parts.skips));
    boundary = std::move(parts.hidden);
    // The next segment works in place.
    boundary[0].tensor = boundary[0].tensor.clone();
  }
  full->run_blocks(ctx, whole, rows.batch(), 1, 3, boundaries);
  for (std::size_t i = 0; i < 3; ++i) {
    boundaries[i] = join_skips(skips[i], boundaries[i]);
  }
  full->run_blocks(ctx, whole, rows.batch(), 3, 4, boundaries);
  auto outputs = outputs_for(*full, rows.latents);
  full->finish(ctx, whole, rows.batch(), boundaries, outputs);
  expect_same(outputs, predict(ctx, *full, rows));
}

TEST_P(TwoStreamsBits, OfARowDoNotDependOnBatchOrThreads) {
  ExecContext one(1);
  ExecContext three(3);
  const auto network = make(one);
  const auto together = predict(three, *network, rows_for(one, *network, 6));
  for (int i = 0; i < 6; ++i) {
    Rows alone;
    alone.add(one, *network, latents_of_row(i, {4, 6, 5}), 900.0 - 100.0 * i,
              prompt(static_cast<std::uint64_t>(i), 7));
    EXPECT_TRUE(bytes_equal(predict(one, *network, alone)[0],
                            together[static_cast<std::size_t>(i)]))
        << i;
  }
}

TEST_P(TwoStreamsBits, FollowTextTimestepAndLatents) {
  ExecContext ctx;
  const auto network = make(ctx);
  Rows rows;
  rows.add(ctx, *network, latents_of_row(0, {4, 6, 5}), 500.0, prompt(1, 7));
  rows.add(ctx, *network, latents_of_row(0, {4, 6, 5}), 500.0, prompt(2, 7));
  rows.add(ctx, *network, latents_of_row(0, {4, 6, 5}), 501.0, prompt(1, 7));
  rows.add(ctx, *network, latents_of_row(1, {4, 6, 5}), 500.0, prompt(1, 7));
  const auto outputs = predict(ctx, *network, rows);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_FALSE(bytes_equal(outputs[i], outputs[0])) << i;
  }
}

TEST_P(TwoStreamsBits, AreTheSameForAnnouncedTimesteps) {
  ExecContext ctx;
  const auto network = make(ctx);
  Rows rows = rows_for(ctx, *network, 2);
  const auto want = predict(ctx, *network, rows);
  rows.prepared[1] = network->prepare(ctx, prompt(1, 7), rows.timesteps);
  rows.conditions[1] = rows.prepared[1].get();
  EXPECT_EQ(rows.prepared[1]->num_bytes() - rows.prepared[0]->num_bytes(),
            2 * network->info().bytes_per_timestep);
  expect_same(predict(ctx, *network, rows), want);
}

TEST_P(TwoStreamsBits, TakeTheMemoryThatWasForecast) {
  ExecContext ctx;
  const auto network = make(ctx);
  for (const int count : {1, 4}) {
    Rows rows = rows_for(ctx, *network, count);
    for (std::size_t i = 0; i < rows.prepared.size(); ++i) {
      rows.prepared[i] = network->prepare(
          ctx, prompt(static_cast<std::uint64_t>(i), 7), rows.timesteps);
      rows.conditions[i] = rows.prepared[i].get();
    }
    ExecContext fresh;
    (void)predict(fresh, *network, rows);
    const auto forecast = static_cast<double>(
        description().memory({4, 6, 5}, GetParam().compute).pass_bytes);
    EXPECT_NEAR(static_cast<double>(fresh.workspace().peak_bytes()),
                count * forecast, 0.1 * count * forecast);
  }
}

TEST_P(TwoStreamsBits, ANaNIsFoundInItsBlock) {
  ExecContext ctx;
  ShardContext whole;
  const auto network = make(ctx);
  Rows rows = rows_for(ctx, *network, 1);
  EXPECT_EQ(first_non_finite(ctx, whole, *network, rows.batch()), "");
  rows.timesteps[0] = std::nan("");
  EXPECT_EQ(first_non_finite(ctx, whole, *network, rows.batch()), "block 0");
}

TEST(TwoStreams, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  ShardContext whole;
  const auto network = load_random(ctx, Description(two_streams::Config{}));
  Rows rows;
  rows.add(ctx, *network, latents_of_row(0, {4, 6, 5}), 500.0, prompt(1, 7));
  std::vector<Boundary> boundaries(1);
  network->embed(ctx, whole, rows.batch(), boundaries);
  const auto code_of = [&](const Boundary& boundary, int begin, int end) {
    std::vector<Boundary> one = {boundary};
    return error_of([&] {
             network->run_blocks(ctx, whole, rows.batch(), begin, end, one);
           })
        .code();
  };
  Boundary wrong = boundaries[0];
  std::swap(wrong[0], wrong[1]);
  EXPECT_EQ(code_of(wrong, 0, 1), Errc::shape_mismatch);
  wrong = {boundaries[0][0]};
  EXPECT_EQ(code_of(wrong, 0, 1), Errc::shape_mismatch);
  EXPECT_EQ(code_of(boundaries[0], 3, 4), Errc::shape_mismatch)
      << "the skip is missing";
  EXPECT_EQ(error_of([&] { (void)network->prepare(ctx, prompt(1, 8)); }).code(),
            Errc::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Compute, TwoStreamsBits,
                         testing::ValuesIn(dit_cases()), name_of_dit);

}  // namespace
}  // namespace troupe::models

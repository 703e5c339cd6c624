// A network in parts that are read when they are used.

#include <atomic>
#include <thread>

#include "models/network/parted_denoiser.h"
#include "tests/models/dit_fixtures.h"
#include "tests/models/helpers.h"

namespace troupe::models {
namespace {

/// Counts what is read.
struct Reads {
  std::vector<SegmentRange> parts;
  bool fails = false;
};

std::unique_ptr<PartedDenoiser> in_parts(ExecContext& ctx, const DitCase& dit,
                                         const std::vector<int>& cuts,
                                         Reads& reads) {
  return std::make_unique<PartedDenoiser>(
      small_dit(ctx, dit)->info(), cuts,
      [&reads, dit](ExecContext& on, SegmentRange blocks) {
        require(!reads.fails, Errc::io, "weights", "cannot be read");
        reads.parts.push_back(blocks);
        return std::shared_ptr<const Denoiser>(small_dit(on, dit, blocks));
      });
}

class PartedDit : public DitTest {};

TEST_P(PartedDit, HasTheBitsOfTheWhole) {
  ExecContext ctx;
  ShardContext whole;
  const auto full = small_dit(ctx, GetParam());
  const Rows rows = small_rows(ctx, *full, 3);
  const auto expected = predict(ctx, *full, rows);
  for (const std::vector<int>& cuts :
       {std::vector<int>{0, 5}, {0, 2, 5}, {0, 1, 2, 3, 4, 5}}) {
    Reads reads;
    const auto parted = in_parts(ctx, GetParam(), cuts, reads);
    EXPECT_TRUE(reads.parts.empty());
    const Rows own = small_rows(ctx, *parted, 3);
    const auto together = predict(ctx, *parted, own);
    EXPECT_EQ(reads.parts.size(), cuts.size() - 1);
    // Across a cut, and block by block.
    std::vector<Boundary> boundaries(3);
    auto outputs = outputs_for(*full, rows.latents);
    parted->embed(ctx, whole, own.batch(), boundaries);
    parted->run_blocks(ctx, whole, own.batch(), 0, 3, boundaries);
    parted->run_blocks(ctx, whole, own.batch(), 3, 4, boundaries);
    parted->run_blocks(ctx, whole, own.batch(), 4, 5, boundaries);
    parted->finish(ctx, whole, own.batch(), boundaries, outputs);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(bytes_equal(together[i], expected[i])) << cuts.size();
      EXPECT_TRUE(bytes_equal(outputs[i], expected[i])) << cuts.size();
    }
    EXPECT_EQ(reads.parts.size(), cuts.size() - 1) << "each is read once";
  }
}

TEST_P(PartedDit, ReadsOnlyWhatIsUsed) {
  ExecContext ctx;
  ShardContext whole;
  Reads reads;
  const auto parted = in_parts(ctx, GetParam(), {0, 2, 5}, reads);
  const Rows rows = small_rows(ctx, *parted, 1);
  std::vector<Boundary> boundaries(1);
  parted->embed(ctx, whole, rows.batch(), boundaries);
  parted->run_blocks(ctx, whole, rows.batch(), 0, 2, boundaries);
  ASSERT_EQ(reads.parts.size(), 1U);
  EXPECT_EQ(reads.parts[0], (SegmentRange{0, 2}));
}

INSTANTIATE_TEST_SUITE_P(Compute, PartedDit, testing::ValuesIn(dit_cases()),
                         name_of_dit);

TEST(Parts, AreLetGoWhenOthersAreUsedForLong) {
  ExecContext ctx;
  ShardContext whole;
  Reads reads;
  const auto parted = in_parts(ctx, dit_cases().front(), {0, 2, 5}, reads);
  const Rows rows = small_rows(ctx, *parted, 1);
  const auto expected = predict(ctx, *parted, rows);
  EXPECT_EQ(reads.parts.size(), 2U);
  std::vector<Boundary> boundaries(1);
  parted->embed(ctx, whole, rows.batch(), boundaries);
  for (std::uint64_t i = 0; i <= PartedDenoiser::kPassesKept; ++i) {
    parted->run_blocks(ctx, whole, rows.batch(), 0, 2, boundaries);
  }
  EXPECT_TRUE(bytes_equal(predict(ctx, *parted, rows)[0], expected[0]));
  ASSERT_EQ(reads.parts.size(), 3U) << "the other was read again";
  EXPECT_EQ(reads.parts[2], (SegmentRange{2, 5}));
}

TEST(Parts, AreReadAgainAfterAFailure) {
  ExecContext ctx;
  ShardContext whole;
  Reads reads;
  const DitCase one = dit_cases().front();
  const auto parted = in_parts(ctx, one, {0, 5}, reads);
  const Rows rows = small_rows(ctx, *parted, 1);
  std::vector<Boundary> boundaries(1);
  reads.fails = true;
  EXPECT_THROW(parted->embed(ctx, whole, rows.batch(), boundaries), Error);
  reads.fails = false;
  parted->embed(ctx, whole, rows.batch(), boundaries);
  EXPECT_EQ(reads.parts.size(), 1U);
}

TEST(Parts, AreReadOnceForAllThreads) {
  std::atomic<int> reads = 0;
  FirstUse<int> number([&reads](ExecContext&) {
    ++reads;
    return std::make_shared<const int>(7);
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&number] {
      ExecContext ctx;
      EXPECT_EQ(*number.get(ctx), 7);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(reads, 1);
}

TEST(Parts, MustCoverTheNetwork) {
  ExecContext ctx;
  Reads reads;
  for (const std::vector<int>& cuts :
       {std::vector<int>{}, {0}, {0, 4}, {1, 5}, {0, 3, 3, 5}, {0, 3, 2, 5}}) {
    EXPECT_THROW((void)in_parts(ctx, dit_cases().front(), cuts, reads), Error);
  }
}

}  // namespace
}  // namespace troupe::models

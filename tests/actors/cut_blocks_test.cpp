#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "actors/plan.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

double largest(const std::vector<double>& costs, const std::vector<int>& cuts) {
  double most = 0;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
    most = std::max(most, std::accumulate(costs.begin() + cuts[s],
                                          costs.begin() + cuts[s + 1], 0.0));
  }
  return most;
}

/// The best possible largest segment, by trying every cut.
double best_of_all(const std::vector<double>& costs, std::size_t begin,
                   int segments) {
  if (segments == 1) {
    return std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(begin),
                           costs.end(), 0.0);
  }
  double best = std::numeric_limits<double>::infinity();
  double sum = 0;
  for (std::size_t end = begin + 1;
       end + static_cast<std::size_t>(segments) - 1 <= costs.size(); ++end) {
    sum += costs[end - 1];
    best = std::min(best, std::max(sum, best_of_all(costs, end, segments - 1)));
  }
  return best;
}

TEST(CutBlocks, CutsEqualBlocksEvenly) {
  const std::vector<double> costs(28, 1.0);
  EXPECT_EQ(cut_blocks(costs, 2), (std::vector<int>{0, 14, 28}));
  EXPECT_EQ(cut_blocks(costs, 4), (std::vector<int>{0, 7, 14, 21, 28}));
}

TEST(CutBlocks, IsAsGoodAsTryingEveryCut) {
  EXPECT_TRUE(rc::check([] {
    const auto whole = *rc::gen::suchThat(
        rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 50)),
        [](const auto& v) { return !v.empty() && v.size() <= 9; });
    const std::vector<double> costs(whole.begin(), whole.end());
    const int segments =
        *rc::gen::inRange(1, static_cast<int>(costs.size()) + 1);
    const auto cuts = cut_blocks(costs, segments);
    RC_ASSERT(cuts.size() == static_cast<std::size_t>(segments) + 1);
    RC_ASSERT(cuts.front() == 0);
    RC_ASSERT(cuts.back() == static_cast<int>(costs.size()));
    RC_ASSERT(std::adjacent_find(cuts.begin(), cuts.end(),
                                 std::greater_equal<>()) == cuts.end());
    RC_ASSERT(largest(costs, cuts) == best_of_all(costs, 0, segments));
  }));
}

TEST(CutBlocks, GivesFasterWorkersMore) {
  const std::vector<double> costs(28, 1.0);
  const auto cut = [&costs](const std::vector<double>& speeds) {
    return cut_blocks(costs, static_cast<int>(speeds.size()), speeds);
  };
  EXPECT_EQ(cut({3, 1}), (std::vector<int>{0, 21, 28}));
  EXPECT_EQ(cut({1, 3}), (std::vector<int>{0, 7, 28}));
  EXPECT_EQ(cut({0.5, 0.25, 0.25}), (std::vector<int>{0, 14, 21, 28}));
  EXPECT_EQ(cut({1, 1000}), (std::vector<int>{0, 1, 28})) << "none is empty";
  EXPECT_EQ(cut({7, 7}), cut_blocks(costs, 2));
}

TEST(CutBlocks, RefusesSpeedsThatDoNotFitTheSegments) {
  const std::vector<double> costs(8, 1.0);
  for (const std::vector<double>& speeds : std::vector<std::vector<double>>{
           {1}, {1, 1, 1}, {1, 0}, {-1, 1}, {1, std::nan("")}, {1, HUGE_VAL}}) {
    EXPECT_THROW((void)cut_blocks(costs, 2, speeds), Error);
  }
}

TEST(CutBlocks, RefusesMoreSegmentsThanBlocks) {
  EXPECT_THROW((void)cut_blocks(std::vector<double>(3, 1.0), 4), Error);
  EXPECT_THROW((void)cut_blocks(std::vector<double>(3, 1.0), 0), Error);
}

}  // namespace
}  // namespace troupe::actors

#include <gtest/gtest.h>

#include "config/suggest.h"

namespace troupe::config {
namespace {

const std::vector<std::string> kWords = {"steps", "seed", "sampler",
                                         "golden retriever"};

TEST(EditDistance, CountsInsertDeleteReplaceAndSwap) {
  EXPECT_EQ(edit_distance("steps", "steps"), 0U);
  EXPECT_EQ(edit_distance("step", "steps"), 1U);
  EXPECT_EQ(edit_distance("stteps", "steps"), 1U);
  EXPECT_EQ(edit_distance("stops", "steps"), 1U);
  EXPECT_EQ(edit_distance("setps", "steps"), 1U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
}

TEST(EditDistance, IgnoresCase) {
  EXPECT_EQ(edit_distance("SEED", "seed"), 0U);
}

TEST(Suggestion, NamesTheNearestWord) {
  EXPECT_EQ(suggestion("setps", kWords), "did you mean 'steps'?");
  EXPECT_EQ(suggestion("retriever", kWords),
            "did you mean 'golden retriever'?");
}

TEST(Suggestion, StaysSilentWhenNothingIsNear) {
  EXPECT_EQ(suggestion("zebra", kWords), "");
  EXPECT_EQ(suggestion("", kWords), "");
  EXPECT_EQ(suggestion(std::string(10000, 's'), kWords, "see --help"),
            "see --help");
}

TEST(JoinNames, CutsLongLists) {
  EXPECT_EQ(join_names(kWords, 2), "steps, seed, … (4 in all)");
  EXPECT_EQ(join_names(kWords, 9), "steps, seed, sampler, golden retriever");
}

}  // namespace
}  // namespace troupe::config

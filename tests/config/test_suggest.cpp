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

// diffusers#3664: what another option means would do harm.
TEST(SuggestedName, IsMisspeltAndNotOfAnotherThing) {
  const std::vector<std::string> options = {"guidance-scale",
                                            "size",
                                            "method",
                                            "steps",
                                            "prompt-2",
                                            "variance-type",
                                            "prompt-file",
                                            "num-inference-steps",
                                            "W"};
  for (const char* name :
       {"guidance-rescale", "original-size", "target-size", "sampling-method",
        "prompt-3", "variant", "guidance-scale-2", "max-steps", "skip-steps",
        "resize", "prompt-files-from", "q", "v"}) {
    EXPECT_EQ(nearest_name(name, options), "") << name;
  }
  EXPECT_EQ(nearest_name("guidence-scael", options), "guidance-scale");
  EXPECT_EQ(nearest_name("guidance_scale", options), "guidance-scale");
  EXPECT_EQ(nearest_name("promptfile", options), "prompt-file");
  EXPECT_EQ(nearest_name("stpes", options), "steps");
  EXPECT_EQ(nearest_name("num-inferense-step", options), "num-inference-steps");
  EXPECT_EQ(suggested_name("setps", options, "see"), "did you mean 'steps'?");
  EXPECT_EQ(suggested_name("original-size", options, "see"), "see");
}

TEST(JoinNames, CutsLongLists) {
  EXPECT_EQ(join_names(kWords, 2), "steps, seed, … (4 in all)");
  EXPECT_EQ(join_names(kWords, 9), "steps, seed, sampler, golden retriever");
}

}  // namespace
}  // namespace troupe::config

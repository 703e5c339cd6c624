#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/bundled_models.h"
#include "config/known_keys.h"

namespace troupe::config {
namespace {

using Keys = std::vector<std::string>;

TEST(KnownKeys, NameTheNearestKeyOfTheClass) {
  const Keys keys = {"_class_name", "num_layres", "patch_size"};
  EXPECT_EQ(unknown_keys_note("config.json", "DiTTransformer2DModel",
                              "num_layers patch_size", keys),
            "config.json: ignored keys that diffusers' DiTTransformer2DModel "
            "does not have: 'num_layres' (did you mean 'num_layers'?)");
}

TEST(KnownKeys, AreThoseOfPublishedSchedulers) {
  EXPECT_EQ(unknown_scheduler_keys_note(
                "s", R"({"_class_name": "DDIMScheduler", "beta_end": 0.02,
                   "clip_sample": false, "skip_prk_steps": true,
                   "solver_p": null, "lambda_min_clipped": -Infinity})"),
            "");
}

TEST(KnownKeys, AreThoseOfEveryBundledScheduler) {
  for (const BundledModel& model : bundled_models()) {
    EXPECT_EQ(unknown_scheduler_keys_note("s", model.scheduler), "");
  }
}

TEST(KnownKeys, OfSchedulersSuggestToo) {
  EXPECT_EQ(
      unknown_scheduler_keys_note(
          "s.json", R"({"_class_name": "DDIMScheduler", "beta_ned": 0.02})"),
      "s.json: ignored keys that diffusers' scheduler class does not have: "
      "'beta_ned' (did you mean 'beta_end'?)");
  EXPECT_EQ(unknown_scheduler_keys_note("s.json", "[]"), "");
}

TEST(KnownKeys, AreShownWithoutWhatATerminalWouldObey) {
  const std::string note =
      unknown_scheduler_keys_note("s.json", R"({"\u001b]0;owned\u0007": 1})");
  EXPECT_NE(note, "");
  EXPECT_EQ(note.find('\x1b'), std::string::npos);
}

TEST(KnownKeys, ComeWithTheClassOfAScheduler) {
  EXPECT_EQ(scheduler_class(R"({"_class_name": "PNDMScheduler"})"),
            "PNDMScheduler");
  EXPECT_EQ(scheduler_class("{}"), "");
  EXPECT_TRUE(is_scheduler_key("skip_prk_steps"));
}

}  // namespace
}  // namespace troupe::config

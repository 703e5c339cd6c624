#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/bundled_models.h"
#include "config/known_keys.h"

namespace troupe::config {
namespace {

using Keys = std::vector<std::string>;

Keys keys_of(const std::string& text) {
  Keys keys;
  const auto object = nlohmann::json::parse(text);
  for (const auto& item : object.items()) {
    keys.push_back(item.key());
  }
  return keys;
}

TEST(KnownKeys, NameTheNearestKeyOfTheClass) {
  const Keys keys = {"_class_name", "num_layres", "patch_size"};
  EXPECT_EQ(unknown_keys_note("config.json", "DiTTransformer2DModel", keys),
            "config.json: ignored keys that diffusers' DiTTransformer2DModel "
            "does not have: 'num_layres' (did you mean 'num_layers'?)");
  EXPECT_NE(unknown_keys_note("c", "AutoencoderKL", keys), "");
  EXPECT_EQ(unknown_keys_note("c", "SomethingElse", keys), "");
}

TEST(KnownKeys, AreThoseOfTheFilesOfDit) {
  // As published beside facebook/DiT-XL-2-256.
  EXPECT_EQ(
      unknown_keys_note("c", "Transformer2DModel",
                        keys_of(R"({"_class_name": 0, "_diffusers_version": 0,
              "_name_or_path": 0, "activation_fn": 0, "attention_bias": 0,
              "attention_head_dim": 0, "cross_attention_dim": 0,
              "double_self_attention": 0, "dropout": 0, "in_channels": 0,
              "norm_elementwise_affine": 0, "norm_num_groups": 0,
              "norm_type": 0, "num_attention_heads": 0,
              "num_embeds_ada_norm": 0, "num_layers": 0,
              "num_vector_embeds": 0, "only_cross_attention": 0,
              "out_channels": 0, "patch_size": 0, "sample_size": 0,
              "upcast_attention": 0, "use_linear_projection": 0})")),
      "");
  EXPECT_EQ(unknown_scheduler_keys_note(
                "s", R"({"_class_name": "DDIMScheduler", "beta_end": 0.02,
                   "clip_sample": false, "skip_prk_steps": true,
                   "solver_p": null, "lambda_min_clipped": -Infinity})"),
            "");
}

TEST(KnownKeys, AreThoseOfEveryBundledModel) {
  for (const BundledModel& model : bundled_models()) {
    EXPECT_EQ(unknown_keys_note("c", "DiTTransformer2DModel",
                                keys_of(std::string(model.transformer))),
              "");
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
}

}  // namespace
}  // namespace troupe::config

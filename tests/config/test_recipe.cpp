#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "config/recipe.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

Recipe full_recipe() {
  Recipe recipe;
  recipe.width = 512;
  recipe.height = 384;
  recipe.vae_tile = 64;
  recipe.ring_blocks = 4;
  recipe.version = "0.1.0";
  recipe.model = "demo";
  recipe.weights_xxh3 = "0123456789abcdef";
  recipe.class_id = 7;
  recipe.class_name = "fruit \"ä\"";
  recipe.seed = 0xffffffffffffffffULL;
  recipe.index = 12;
  recipe.noise = NoiseKind::torch;
  recipe.guidance = {.scale = 4.1, .rescale = 0.7, .interval = {{0.25, 7}}};
  recipe.told.original = {1024, 768};
  recipe.told.crop = {.top = 3, .left = 5};
  recipe.told_negative.target = {8, 9};
  recipe.told.aesthetic_score = 6.5;
  recipe.max_sequence_length = 120;
  recipe.schedule.solver = samplers::Solver::dpmpp;
  recipe.schedule.num_inference_steps = 23;
  recipe.schedule.sigma_spacing = samplers::SigmaSpacing::karras;
  recipe.schedule.timestep_spacing = samplers::TimestepSpacing::trailing;
  recipe.schedule.clip_sample = false;
  recipe.schedule.denoising_end = 0.8;
  recipe.schedule.sigmas = {1.0 / 3.0, 0.1};
  recipe.schedule.algorithm = samplers::DpmAlgorithm::sde_dpmsolver_pp;
  recipe.method.kind = samplers::MethodKind::stale;
  recipe.method.ages = {1, 2};
  recipe.method.segment_speeds = {1, 1.0 / 3.0};
  recipe.dtype = "bf16";
  recipe.execution_class = "00ff";
  recipe.latents_xxh3 = "feedfacefeedface";
  return recipe;
}

Error error_of(const std::string& text) {
  try {
    (void)parse_recipe("x.png", text);
  } catch (const Error& error) {
    return error;
  }
  return {Errc::internal, "test", "no error"};
}

Errc code_of(const std::string& text) { return error_of(text).code(); }

TEST(Recipe, RoundTripsThroughCanonicalJson) {
  const std::string text = to_json(full_recipe());
  const Recipe back = parse_recipe("x.png", text);
  EXPECT_EQ(to_json(back), text);
  EXPECT_EQ(back.seed, 0xffffffffffffffffULL);
  EXPECT_EQ(back.schedule.sigmas, full_recipe().schedule.sigmas);
  EXPECT_EQ(back.schedule.timestep_spacing,
            samplers::TimestepSpacing::trailing);
  EXPECT_EQ(back.schedule.clip_sample, false);
  EXPECT_EQ(back.schedule.sigma_min, std::nullopt);
  EXPECT_EQ(back.method.ages, (std::vector<int>{1, 2}));
  EXPECT_EQ(back.method.segment_speeds, full_recipe().method.segment_speeds);
  EXPECT_EQ(back.noise, NoiseKind::torch);
  EXPECT_EQ(back.vae_tile, 64);
  EXPECT_EQ(back.ring_blocks, 4);
  EXPECT_EQ(back.guidance, full_recipe().guidance);
  EXPECT_EQ(back.told.original, (PictureSize{1024, 768}));
  EXPECT_EQ(back.told.crop, (PictureCorner{.top = 3, .left = 5}));
  EXPECT_EQ(back.told.target, std::nullopt);
  EXPECT_EQ(back.told.aesthetic_score, 6.5);
  EXPECT_EQ(back.max_sequence_length, 120);
  EXPECT_EQ(back.schedule.denoising_end, 0.8);
  EXPECT_EQ(back.schedule.denoising_start, std::nullopt);
}

TEST(Recipe, SaysWhetherItsSizeWasSampledInABin) {
  const auto said = [](const Recipe& recipe) {
    std::string text;
    for (const Setting& setting : to_settings(recipe, "x.png")) {
      if (setting.key == "no-resolution-bins") {
        EXPECT_EQ(setting.place, "x.png: no-resolution-bins");
        text += setting.text;
      }
    }
    return text;
  };
  Recipe recipe = full_recipe();
  EXPECT_EQ(to_json(recipe).find("resolution_bins"), std::string::npos);
  EXPECT_EQ(said(recipe), "true") << "as recipes of before, which had no bins";
  recipe.resolution_bins = true;
  EXPECT_EQ(said(parse_recipe("x.png", to_json(recipe))), "false");
  recipe.width.reset();
  recipe.height.reset();
  EXPECT_EQ(said(recipe), "") << "of the size that the model was trained with";
}

TEST(Recipe, WritesTheSameTextForEveryExactMethod) {
  Recipe recipe = full_recipe();
  recipe.method = {};
  const std::string sequential = to_json(recipe);
  for (const samplers::MethodKind kind :
       {samplers::MethodKind::batch, samplers::MethodKind::cfg,
        samplers::MethodKind::pipeline, samplers::MethodKind::picard}) {
    recipe.method = {};
    recipe.method.kind = kind;
    recipe.method.num_segments = 3;
    EXPECT_EQ(to_json(recipe), sequential);
  }
  recipe.method = {};
  recipe.method.kind = samplers::MethodKind::stale;
  recipe.method.age = 0;
  EXPECT_EQ(to_json(recipe), sequential);
  recipe.method.age = 1;
  EXPECT_NE(to_json(recipe), sequential);
  recipe.method.kind = samplers::MethodKind::picard;
  recipe.method.tolerance = 0.1;
  EXPECT_NE(to_json(recipe), sequential);
}

// Batch gives the bytes of sequential with the same modifiers, too.
TEST(Recipe, KeepsTheModifiersOfAMethod) {
  Recipe recipe = full_recipe();
  recipe.method = {};
  const std::string plain = to_json(recipe);
  recipe.method.kind =
      samplers::MethodKind::batch.with(samplers::Modifier::cache);
  recipe.method.cache_threshold = 0.25;
  const std::string cached = to_json(recipe);
  EXPECT_NE(cached.find(R"("kind":"sequential+cache")"), std::string::npos);
  const samplers::MethodOptions read = parse_recipe("x.png", cached).method;
  EXPECT_EQ(read.kind,
            samplers::MethodKind::sequential.with(samplers::Modifier::cache));
  EXPECT_EQ(read.cache_threshold, 0.25);
  std::map<std::string, std::string> said;
  for (const Setting& setting : to_settings(recipe, "x.png")) {
    said[setting.key] = setting.text;
  }
  EXPECT_EQ(said["method"], "sequential+cache");
  EXPECT_EQ(said["cache-threshold"], "0.25");
  recipe.method.cache_threshold = 0;
  EXPECT_EQ(to_json(recipe), plain) << "exact";
  for (const char* other : {"cfg+cache", "sequential+cached", "auto+cache"}) {
    std::string text = cached;
    text.replace(text.find("sequential+cache"), 16, other);
    EXPECT_EQ(code_of(text), Errc::corrupt_file) << other;
  }
}

TEST(Recipe, RefusesHostileTexts) {
  const std::string good = to_json(full_recipe());
  EXPECT_EQ(code_of(""), Errc::corrupt_file);
  EXPECT_EQ(code_of("[]"), Errc::corrupt_file);
  EXPECT_EQ(code_of("{}"), Errc::corrupt_file);
  EXPECT_EQ(code_of(good.substr(0, good.size() / 2)), Errc::corrupt_file);
  EXPECT_EQ(code_of(std::string(100000, '[')), Errc::corrupt_file);
  EXPECT_EQ(code_of(std::string(2U << 20U, ' ')), Errc::corrupt_file);
}

TEST(Recipe, RefusesEveryFieldOfTheWrongType) {
  const auto good = nlohmann::json::parse(to_json(full_recipe()));
  for (const auto& [key, value] : good.items()) {
    nlohmann::json bad = good;
    bad[key] = nlohmann::json::array({nullptr});
    EXPECT_EQ(code_of(bad.dump()), Errc::corrupt_file) << key;
  }
  for (const auto& [key, value] : good["schedule"].items()) {
    nlohmann::json bad = good;
    bad["schedule"][key] = nlohmann::json::object();
    EXPECT_EQ(code_of(bad.dump()), Errc::corrupt_file) << key;
  }
}

TEST(Recipe, RefusesWholeNumbersThatWouldWrap) {
  const auto good = nlohmann::json::parse(to_json(full_recipe()));
  const std::uint64_t minus_five = std::uint64_t{0} - 5;
  for (const char* key : {"class_id", "schedule", "method"}) {
    nlohmann::json bad = good;
    if (std::string(key) == "schedule") {
      bad[key]["num_inference_steps"] = minus_five;
    } else if (std::string(key) == "method") {
      bad[key]["ages"] = {minus_five};
    } else {
      bad[key] = std::uint64_t{1} << 63U;
    }
    EXPECT_EQ(code_of(bad.dump()), Errc::corrupt_file) << key;
  }
}

TEST(Recipe, RefusesControlCharactersThatATerminalWouldObey) {
  auto bad = nlohmann::json::parse(to_json(full_recipe()));
  bad["model"] = "\x1b]0;owned\x07";
  EXPECT_EQ(code_of(bad.dump()), Errc::corrupt_file);
}

TEST(Recipe, WritesNoTextThatItWouldRefuse) {
  const auto name_of = [](const std::string& name) {
    Recipe recipe = full_recipe();
    recipe.class_name = name;
    recipe.model = "my\nmodel\x7f";
    return parse_recipe("x.png", to_json(recipe)).class_name;
  };
  EXPECT_EQ(name_of("tab\there"), "tab here");
  EXPECT_EQ(name_of("\xff"), "?");
  EXPECT_EQ(name_of(std::string(1023, 'a')), std::string(1023, 'a'));
  // Characters count, and what is cut is marked.
  std::string umlauts;
  for (int i = 0; i < 1023; ++i) {
    umlauts += "ä";
  }
  EXPECT_EQ(name_of(umlauts), umlauts);
  EXPECT_EQ(name_of(umlauts + "b"), umlauts + "…");
  EXPECT_EQ(name_of(std::string(5000, '\xff')), std::string(1023, '?') + "…");
}

TEST(Recipe, RefusesKeysThatItDoesNotWrite) {
  const auto good = nlohmann::json::parse(to_json(full_recipe()));
  nlohmann::json bad = good;
  bad["out"] = "/etc/passwd";
  EXPECT_EQ(error_of(bad.dump()).code(), Errc::corrupt_file);
  bad = good;
  bad["class_nmae"] = "dog";
  EXPECT_EQ(error_of(bad.dump()).hint(), "did you mean 'class_name'?");
  bad = good;
  bad["schedule"]["beta_ned"] = 0.02;
  const Error error = error_of(bad.dump());
  EXPECT_EQ(error.place(), "x.png");
  EXPECT_EQ(error.message(),
            "the recipe has the unknown key \"schedule.beta_ned\"");
  EXPECT_EQ(error.hint(), "did you mean 'beta_end'?");
  bad = good;
  bad["method"]["stirde"] = 2;
  EXPECT_EQ(error_of(bad.dump()).hint(), "did you mean 'stride'?");
}

TEST(Recipe, IgnoresTheNewKeysOfANewerVersion) {
  auto newer = nlohmann::json::parse(to_json(full_recipe()));
  newer["schedule"]["swirl"] = 1;
  for (const char* version : {"0.1.0", "0.0.9", "", "newest"}) {
    newer["version"] = version;
    EXPECT_EQ(code_of(newer.dump()), Errc::corrupt_file) << version;
  }
  for (const char* version : {"0.10.0", "10.0", "1000.0.0"}) {
    newer["version"] = version;
    EXPECT_EQ(parse_recipe("x.png", newer.dump()).seed, full_recipe().seed)
        << version;
  }
}

TEST(Recipe, SaysWhereWhatAndWhatToDoAboutEveryMistake) {
  const auto good = nlohmann::json::parse(to_json(full_recipe()));
  nlohmann::json deep = 1;
  for (int i = 0; i < 40; ++i) {
    deep = nlohmann::json::array({deep});
  }
  nlohmann::json nested = good;
  nested["model"] = deep;
  EXPECT_EQ(error_of(nested.dump()).place(), "x.png");
  nlohmann::json wrong = good;
  wrong["method"]["num_segments"] = 5'000'000;
  const Error error = error_of(wrong.dump());
  EXPECT_EQ(error.place(), "x.png: num_segments");
  EXPECT_EQ(error.message(),
            "got 5000000, expected a whole number within a million of 0");
  for (const auto& [key, value] : good["schedule"].items()) {
    nlohmann::json bad = good;
    bad["schedule"][key] = nlohmann::json::object();
    const Error typed = error_of(bad.dump());
    EXPECT_EQ(typed.place(), "x.png: " + key);
    EXPECT_TRUE(typed.message().starts_with("got {}, expected "))
        << typed.what();
    EXPECT_NE(typed.hint(), "");
  }
  for (const char* text : {"", "[]", "{}", R"({"schema":1})"}) {
    EXPECT_NE(error_of(text).hint(), "") << text;
  }
}

}  // namespace
}  // namespace troupe::config

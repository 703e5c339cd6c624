// What files and command lines hold is shown short and harmless.
#include "tests/cli/pipeline.h"

namespace troupe::test {
namespace {

constexpr std::size_t kLongLine = 4000;

/// Fails for bytes that a terminal acts on and for lines without an end.
void expect_harmless(const std::string& text) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '\n') {
      begin = i + 1;
    }
    ASSERT_TRUE(byte == '\n' || (byte >= 0x20 && byte != 0x7f)) << int{byte};
    ASSERT_LT(i + 1 - begin, kLongLine);
  }
  // Strict: throws at what is not UTF-8.
  EXPECT_NO_THROW((void)nlohmann::json(text).dump());
  EXPECT_EQ(text.find("\u202e"), std::string::npos);
}

TEST(StrangeText, OfAMillionCharactersIsCut) {
  const Pipeline pipeline;
  auto config = nlohmann::json::parse(pipeline.file("transformer/config.json"));
  config["_class_name"] = std::string(1'000'000, 'A') + "\x1b[2J";
  pipeline.replace("transformer/config.json", config.dump());
  const Outcome outcome = pipeline.sample({"--json"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_LT(outcome.err.size(), kLongLine);
  expect_harmless(outcome.err);
  EXPECT_LT(outcome.out.size(), kLongLine);
  EXPECT_NE(outcome.err.find(std::string(200, 'A') + "…'"), std::string::npos)
      << outcome.err;
}

TEST(StrangeText, OfEveryFileAndFlagIsPrintable) {
  const std::string strange = "\x1b]0;gotcha\x07 \u202e txet \u200b";
  const auto with = [&](const std::string& file, const std::string& key,
                        const nlohmann::json& value) {
    const Pipeline pipeline;
    auto json = nlohmann::json::parse(pipeline.file(file));
    json[key] = value;
    pipeline.replace(file, json.dump());
    const Outcome sampled = pipeline.sample();
    const Outcome seen = run({"inspect", pipeline.path()});
    expect_harmless(sampled.err + sampled.out);
    expect_harmless(seen.err + seen.out);
    EXPECT_LE(sampled.err_lines(), 1);
  };
  const std::string transformer = "transformer/config.json";
  with(transformer, "_class_name", strange);
  with(transformer, "activation_fn", strange);
  with(transformer, "num_layers", strange);
  with(transformer, strange, 1);
  with("model_index.json", "_class_name", strange);
  with("model_index.json", "id2label", {{"0", strange}});
  with("model_index.json", "id2label", {{strange, "owl"}});
  with(kScheduler, "_class_name", strange);
  with(kScheduler, "beta_schedule", strange);
  with(kScheduler, strange, 1);
  const Pipeline pipeline;
  for (const char* flag : {"--sampler", "--class", "--steps", "--dtype",
                           "--random-weights", "--devices"}) {
    const Outcome outcome = pipeline.sample({flag, strange + "\xff"});
    EXPECT_EQ(outcome.exit_code, 2) << flag;
    expect_harmless(outcome.err + outcome.out);
  }
  const Outcome unknown = run({"sample", "--" + strange});
  EXPECT_EQ(unknown.exit_code, 2);
  expect_harmless(unknown.err + unknown.out);
}

TEST(StrangeText, ThatIsNotUtf8IsShownAsUtf8) {
  const Pipeline pipeline;
  pipeline.replace("transformer/config.json", "{\"\xff\xfe\": ");
  Outcome outcome = pipeline.sample();
  EXPECT_EQ(outcome.exit_code, 6);
  expect_harmless(outcome.err);
  outcome = run({"sample", "-m", pipeline.path("\xc0\xaf\x1b[2J")});
  EXPECT_EQ(outcome.exit_code, 2);
  expect_harmless(outcome.err);
  outcome = run(
      {"inspect", pipeline.write_tensors("a.safetensors", "\x1b[2J\u202e")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  expect_harmless(outcome.out);
}

TEST(StrangeText, ManyUnknownKeysAreOneShortNote) {
  const Pipeline pipeline;
  std::string config = pipeline.file("transformer/config.json");
  std::string keys;
  for (int i = 0; i < 500'000; ++i) {
    keys += "\"num_layrs_" + std::to_string(i) + "\": 0,";
  }
  config.insert(config.find('{') + 1, keys);
  pipeline.replace("transformer/config.json", config);
  const Outcome outcome = pipeline.sample({"--dry-run"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), 1);
  EXPECT_LT(outcome.err.size(), kLongLine);
  EXPECT_NE(outcome.err.find("(500000 in all)"), std::string::npos)
      << outcome.err;
}

TEST(StrangeText, ManyClassNamesAreListedInTheirOrder) {
  const Pipeline pipeline;
  constexpr int kNames = 200'000;
  std::string index = R"({"_class_name": "DiTPipeline", "id2label": {)";
  for (int i = 0; i < kNames; ++i) {
    const std::string id = std::to_string(i);
    index += (i == 0 ? "\"" : ", \"") + id + "\": \"name " + id + "\"";
  }
  pipeline.replace("model_index.json", index + "}}");
  const Outcome seen = run({"inspect", "--json", pipeline.path()});
  ASSERT_EQ(seen.exit_code, 0) << seen.err;
  const auto names = seen.json()["items"][0]["class_names"];
  ASSERT_EQ(names.size(), kNames);
  EXPECT_EQ(names["199999"], "name 199999");
  EXPECT_LT(seen.out.find("\"2\":"), seen.out.find("\"10\":"));
}

TEST(StrangeText, ANameOfManyClassesListsAFew) {
  const Pipeline pipeline;
  std::string index = R"({"_class_name": "DiTPipeline", "id2label": {)";
  for (int i = 0; i < 10'000; ++i) {
    index += (i == 0 ? "\"" : ", \"") + std::to_string(i) + "\": \"owl\"";
  }
  pipeline.replace("model_index.json", index + "}}");
  const Outcome outcome = pipeline.sample({"--class", "owl", "--json"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_LT(outcome.out.size(), kLongLine);
  EXPECT_NE(outcome.err.find("0 (owl)"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("(10000 in all)"), std::string::npos);
}

}  // namespace
}  // namespace troupe::test

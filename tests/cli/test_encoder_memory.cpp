// A text encoder is let go before the network is read: memory is asked for the
// larger of the two.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

using Words = std::vector<std::string>;

/// T5-XXL is seven times its network; the other is a part of its own.
constexpr const char* kLargeEncoder = "pixart-sigma-xl-2";
constexpr const char* kSmallEncoder = "tiny-sd15";

Words dry_run(const std::string& model, Words more) {
  Words words = {"sample",    "--random-weights",
                 model,       "--size",
                 "64x64",     "--no-resolution-bins",
                 "--dtype",   "f32",
                 "--workers", "1",
                 "--dry-run", "--json",
                 "-v"};
  words = overridden(std::move(words), more);
  return words;
}

/// Of the job's plan, in bytes.
std::uint64_t forecast_of(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.json()["plan"]["memory_bytes"];
}

std::uint64_t encoder_bytes(const std::string& model) {
  const auto item = run({"inspect", model, "--json"}).json()["items"][0];
  std::uint64_t most = 0;
  for (const auto& encoder : item["text_encoders"]) {
    most = std::max(most, encoder["memory_bytes_f32"].get<std::uint64_t>());
  }
  return most;
}

TEST(EncoderMemory, IsForecastBesideTheNetworkNotOnTopOfIt) {
  for (const char* const model : {kLargeEncoder, kSmallEncoder}) {
    const std::uint64_t encoder = encoder_bytes(model);
    // Without a prompt nothing is encoded.
    const Outcome network = run(dry_run(model, {}));
    const Outcome both = run(dry_run(model, {"--prompt", "a fox"}));
    const std::uint64_t alone = forecast_of(network);
    EXPECT_EQ(encoder > alone, model == kLargeEncoder) << alone;
    const std::uint64_t prompt = both.json()["plan"]["encoder"]["prompt_bytes"];
    EXPECT_EQ(forecast_of(both), std::max(encoder, alone) + prompt) << model;
    const char* const says =
        "needed while prompts are encoded, which is let go before the network "
        "is read";
    EXPECT_NE(both.err.find(says), std::string::npos) << both.err;
    EXPECT_EQ(network.err.find(says), std::string::npos) << network.err;
  }
}

/// 77 rows of 80 numbers and pooled vectors of 72 for each different text.
TEST(EncoderMemory, OfEncodedPromptsDoesNotGrowWithTheirNumber) {
  const TempFolder folder;
  const auto plan = [&folder](int texts, int lines) {
    std::string file;
    for (int i = 0; i < lines; ++i) {
      file += "picture " + std::to_string(i % texts) + "\n";
    }
    const Outcome outcome =
        run(dry_run("tiny-sdxl", {"--prompt-file", folder.write("p", file)}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json()["plan"];
  };
  const auto one = plan(1, 1);
  const auto two = plan(2, 3);
  constexpr int kMany = 11000;
  const auto equal = plan(1, kMany);
  const auto many = plan(kMany, kMany);
  EXPECT_EQ(two["encoder"]["prompts"], 3);
  const auto bytes = [](const auto& of) {
    return of["encoder"]["prompt_bytes"].template get<std::uint64_t>();
  };
  EXPECT_EQ(bytes(one), (77 * 80 + 72) * sizeof(float));
  EXPECT_EQ(bytes(two), 2 * bytes(one));
  EXPECT_EQ(bytes(equal), bytes(one));
  EXPECT_EQ(bytes(many), kMany * bytes(one));
  constexpr std::uint64_t kMost = std::uint64_t{256} << 20U;
  EXPECT_EQ(many["encoder"]["file_bytes"], bytes(many) - kMost);
  EXPECT_EQ(many["memory_bytes"].get<std::uint64_t>() -
                equal["memory_bytes"].get<std::uint64_t>(),
            kMost - bytes(one));
}

TEST(EncoderMemory, ThatIsMissingIsSaidBeforeLoading) {
  if (is_sanitized()) {
    GTEST_SKIP() << "a sanitizer's shadow needs the whole address space";
  }
  const TempFolder folder;
  // The encoder takes 17.8 GiB.
  const Words job = {"--random-weights", kLargeEncoder, "--dtype", "f32",
                     "--prompt",         "a fox",       "-o"};
  Words drawn = {"sample", "--size", "64x64", "--no-resolution-bins"};
  drawn = overridden(std::move(drawn), job);
  drawn.push_back(folder.path("a.png"));
  Words encoded = {"encode"};
  encoded = overridden(std::move(encoded), job);
  encoded.push_back(folder.path("a.safetensors"));
  const Outcome sampling = run_in_2_gib(drawn);
  const Outcome encoding = run_in_2_gib(encoded);
  for (const Outcome& outcome : {sampling, encoding}) {
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with(
        "troupe: [memory] the text encoder does not fit: "))
        << outcome.err;
    EXPECT_NE(outcome.err.find("ulimit -v allows 2.00 GiB: "),
              std::string::npos)
        << outcome.err;
  }
  EXPECT_NE(sampling.err.find("give --prompt-embeds FILE"), std::string::npos)
      << sampling.err;
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace troupe::test

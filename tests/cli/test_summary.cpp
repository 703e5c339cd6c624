#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "actors/artefacts/json_writer.h"

namespace troupe::actors {
namespace {

TEST(Summary, HasEveryPromisedKey) {
  RunSummary summary;
  summary.images.emplace_back().index = 3;
  summary.latents_xxh3 = "0123456789abcdef";  // left out where it is not known
  const auto json = nlohmann::json::parse(to_json(summary));
  for (const char* key : {"schema",
                          "version",
                          "status",
                          "exit_code",
                          "method",
                          "sampler",
                          "steps",
                          "guidance",
                          "nfe",
                          "rounds",
                          "workers",
                          "wall_seconds",
                          "load_seconds",
                          "compute_seconds",
                          "images_per_second",
                          "peak_memory_bytes",
                          "bytes_sent",
                          "recoveries",
                          "execution_class",
                          "latents_xxh3",
                          "images"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  for (const char* key : {"index", "seed", "class", "path", "latents_xxh3"}) {
    EXPECT_TRUE(json["images"][0].contains(key)) << key;
  }
}

TEST(Summary, SaysHowManyRowsANodeMakesASecond) {
  // Two workers that were there for 10 s and worked a quarter of that.
  const std::vector<Process> nodes = {{.work = {.workers = 2,
                                                .rows = 60,
                                                .busy_seconds = 5,
                                                .present_seconds = 10}},
                                      {.work = {.workers = 2}}};
  const auto json = json_of(nodes);
  EXPECT_EQ(json[0]["rows_per_second"], 6.0);
  EXPECT_EQ(json[1]["rows_per_second"], 0.0);
}

TEST(Summary, SaysWhatANodeHas) {
  const std::vector<Process> nodes = {
      {.means = {64, 32, {{{DeviceKind::cuda, 1}, "GPU", 1000}, {}}},
       .work = {.threads = 6}},
      {}};
  const auto json = json_of(nodes);
  EXPECT_EQ(json[0]["threads"], 6);
  EXPECT_EQ(json[0]["memory_bytes"], 64);
  EXPECT_EQ(json[0]["available_memory_bytes"], 32);
  const auto& devices = json[0]["devices"];
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0]["name"], "cuda:1 (GPU)");
  EXPECT_EQ(devices[0]["memory_bytes"], 1000);
  EXPECT_EQ(devices[1]["name"], "cpu");
  EXPECT_EQ(devices[1]["memory_bytes"], 64);
  EXPECT_TRUE(json[1]["devices"].empty());
}

TEST(Summary, SaysWhatFailed) {
  const Error error(Errc::out_of_memory, "memory", "too much", "use less");
  RunSummary summary;
  summary.verb = "sample";
  const auto json = nlohmann::json::parse(failure_json(summary, error));
  EXPECT_EQ(json["status"], "failed");
  EXPECT_EQ(json["exit_code"], 2);
  EXPECT_EQ(json["error"]["code"], "out_of_memory");
  EXPECT_EQ(json["error"]["where"], "memory");
  EXPECT_EQ(json["error"]["message"], "too much");
  EXPECT_EQ(json["error"]["hint"], "use less");
  EXPECT_EQ(json["error"]["retryable"], true);
}

TEST(OneLine, IsOneLineWhateverTheMessageHolds) {
  const Error error(Errc::corrupt_file, "a\nb", "c\x1b[2Jd", "e\r\nf");
  EXPECT_EQ(one_line(error), "troupe: [a b] c?[2Jd; e  f");
}

TEST(OneLine, OfLongPathsEndsWithTheHint) {
  const std::string path(4000, '/');
  const std::string line =
      one_line({Errc::io, path, "cannot read " + path, "check the path"});
  EXPECT_LE(line.size(), 2000U);
  EXPECT_TRUE(line.ends_with("; check the path")) << line;
}

}  // namespace
}  // namespace troupe::actors

// The codec of clients' questions, and of the answers.

#include "actors/wire/client_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "kernels/core/error.h"
#include "net/shared_bytes.h"

namespace troupe::actors {
namespace {

using net::bytes_of;

JobStatus some_status() {
  JobStatus status{.model = "dit\xff",
                   .method = "batch",
                   .images_total = 1ULL << 63U,
                   .images_done = 2,
                   .images_failed = 3,
                   .images_cancelled = 4,
                   .calls_done = 5,
                   .calls_total = 6,
                   .fraction = 0.1,
                   .calls_per_second = 1e300,
                   .elapsed_seconds = std::nextafter(1.0, 2.0),
                   .seconds_left = -1,
                   .waits_for_workers = true,
                   .recoveries = 7};
  status.nodes.push_back(
      {.name = "host:1",
       .process = 3,
       .workers = 2,
       .threads = 8,
       .tasks = 9,
       .rows = 8,
       .busy_seconds = 0.5,
       .busy_share = 0.25,
       .bytes_sent = 1ULL << 40U,
       .bytes_received = 1,
       .losses = 1,
       .status = "left",
       .cause = "it fell silent",
       .means = {1ULL << 40U,
                 1ULL << 39U,
                 {{}, {{DeviceKind::cuda, 1}, "GPU", 9}}},
       .execution_classes = {"0123456789abcdef", "fedcba9876543210"}});
  status.nodes.push_back({.status = "here"});
  return status;
}

TEST(ClientCodec, BringsQuestionsBack) {
  const auto trip = [](const ClientQuestion& question) {
    return wire::decode_question(bytes_of(wire::encode(question)));
  };
  EXPECT_TRUE(std::holds_alternative<AskStatus>(trip(AskStatus{})));
  EXPECT_EQ(std::get<AskStop>(trip(AskStop{"ann\xff"})).user, "ann\xff");
  EXPECT_EQ(
      std::get<CancelSample>(trip(CancelSample{1ULL << 60U})).sample_index,
      1ULL << 60U);
}

TEST(ClientCodec, BringsAnswersBack) {
  const auto trip = [](const ClientAnswer& answer) {
    return wire::decode_answer(bytes_of(wire::encode(answer)));
  };
  EXPECT_EQ(std::get<JobStatus>(trip(some_status())), some_status());
  EXPECT_EQ(std::get<Granted>(trip(Granted{"done"})).what, "done");
  const auto refused = std::get<Failure>(
      trip(Failure{Errc::invalid_argument, "--sample", "no such", "see ls"}));
  EXPECT_EQ(refused.code, Errc::invalid_argument);
  EXPECT_EQ(refused.hint, "see ls");
}

TEST(ClientCodec, FitsTheStatusOfTheLargestJobIntoAnAnswer) {
  JobStatus status = some_status();
  const std::vector<DeviceMeans> gpus(
      17, {{DeviceKind::cuda, 1 << 30}, std::string(5000, 'd'), ~0ULL});
  const NodeStatus longest{
      .name = std::string(5000, 'n'),
      .process = 1 << 30,
      .tasks = ~0ULL,
      .rows = ~0ULL,
      .bytes_sent = ~0ULL,
      .bytes_received = ~0ULL,
      .cause = std::string(5000, 'c'),
      .means = {~0ULL, ~0ULL, gpus},
      .execution_classes = std::vector(5, std::string(5000, 'e'))};
  status.nodes.assign(wire::kMostClientNodes + 1, longest);
  const auto came = std::get<JobStatus>(
      wire::decode_answer(bytes_of(wire::encode(ClientAnswer(status)))));
  EXPECT_EQ(came.nodes.size(),
            static_cast<std::size_t>(wire::kMostClientNodes));
  EXPECT_EQ(came.nodes.back().means.devices.size(), 16U);
  EXPECT_EQ(came.nodes.back().execution_classes.size(), 4U);
}

TEST(ClientCodec, TakesChangedBytesForWhatTheyAre) {
  const std::string whole = wire::encode(ClientAnswer(some_status()));
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = whole.substr(0, random() % (whole.size() + 1));
    for (unsigned change = random() % 4; change > 0 && !bytes.empty();
         --change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    try {
      (void)wire::decode_answer(bytes_of(bytes));
      (void)wire::decode_question(bytes_of(bytes));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::corrupt_file);
      ++refused;
    }
  }
  EXPECT_GT(refused, 10000);
  EXPECT_THROW((void)wire::decode_question({}), Error);
  EXPECT_THROW((void)wire::decode_answer({}), Error);
}

// A parser calls itself for each level: protobuf's has a limit.
TEST(ClientCodec, RefusesGroupsOfManyLevels) {
  constexpr std::size_t kLevels = 1'000'000;
  constexpr char kBegin = 15 << 3 | 3;  // a group that no record has
  constexpr char kEnd = 15 << 3 | 4;
  const std::string deep =
      std::string(kLevels, kBegin) + std::string(kLevels, kEnd);
  const auto bytes = std::as_bytes(std::span(deep));
  EXPECT_THROW((void)wire::decode_question(bytes), Error);
  EXPECT_THROW((void)wire::decode_answer(bytes), Error);
}

}  // namespace
}  // namespace troupe::actors

// Values that go from worker to worker: --bind, --advertise and --no-peer.

#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <cstdint>
#include <optional>
#include <set>

#include "tests/cli/link_job.h"
#include "tests/cli/scrape.h"
#include "tests/net/tcp_relay.h"

namespace troupe::test {
namespace {

using Arguments = std::vector<std::string>;

/// Boundaries travel between its two workers. It takes long enough for both to
/// come.
Arguments two_parts(const Arguments& more = {}) {
  Arguments job = {"--method", "pipeline", "--segments", "2",
                   "-n",       "16",       "--steps",    "50"};
  job = overridden(std::move(job), more);
  return job;
}

TEST(LinksOfWorkers, ExchangeValuesWithoutTheCoordinator) {
  const TempFolder keys;
  const std::string key = keys.path("key");
  ASSERT_EQ(run({"keys", "new", "--out", key}).exit_code, 0);
  const Arguments with_key = {"--secret-file", key};
  std::optional<std::string> expected;
  for (const bool is_tcp : {false, true}) {
    std::uint64_t sent[2] = {};
    for (const bool is_direct : {false, true}) {
      LinkJob job(two_parts(is_tcp ? with_key : Arguments{}), {},
                  is_tcp ? own_tcp_endpoint() : std::string{});
      Arguments worker = is_tcp ? with_key : Arguments{};
      if (!is_direct) {
        worker.emplace_back("--no-peer");
      }
      job.add_worker(worker);
      job.add_worker(worker);
      const nlohmann::json result = job.finish();
      if (!expected) {
        expected = job.alone()["latents_xxh3"];
      }
      EXPECT_EQ(result["latents_xxh3"], *expected);
      EXPECT_EQ(result["recoveries"], 0);
      sent[is_direct ? 1 : 0] = result["bytes_sent"];
      for (const std::size_t w : {0U, 1U}) {
        const Outcome outcome = job.worker(w).wait();
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      }
      for (const std::string& name : job.folder().names()) {
        EXPECT_TRUE(name == "link" || name == "out") << name << " is left";
      }
    }
    EXPECT_GT(sent[0], 0U) << "through the coordinator";
    EXPECT_LT(sent[1], sent[0] / 4) << "without it";
  }
}

TEST(LinksOfWorkers, MayDifferInWhomTheyReach) {
  LinkJob job(two_parts());
  job.add_worker({"--no-peer"});
  job.add_worker({"--bind", "tcp://127.0.0.1:0"});
  const nlohmann::json result = job.finish();
  EXPECT_EQ(result["latents_xxh3"], job.alone()["latents_xxh3"]);
  EXPECT_EQ(result["recoveries"], 0);
  EXPECT_GT(result["bytes_sent"], 0);
}

TEST(LinksOfWorkers, AreMissedByNobodyWhereTheyCannotBeMade) {
  LinkJob job(two_parts());
  const Arguments astray = {"--bind", "tcp://127.0.0.1:0", "--advertise",
                            "tcp://127.0.0.1:1"};
  job.add_worker(astray);
  job.add_worker(astray);
  const nlohmann::json result = job.finish();
  EXPECT_EQ(result["latents_xxh3"], job.alone()["latents_xxh3"]);
  EXPECT_EQ(result["recoveries"], 0);
  EXPECT_GT(result["bytes_sent"], 0) << "through the coordinator";
}

TEST(LinksOfWorkers, GoOnWhenOneDiesThatTheOtherAsks) {
  LinkJob job(
      {"--method", "pipeline", "--segments", "2", "-n", "40", "--steps", "50"});
  job.add_worker();
  job.add_worker();
  job.await_images(4);
  job.worker(1).signal(SIGKILL);
  job.add_worker();
  const nlohmann::json result = job.finish();
  EXPECT_EQ(result["latents_xxh3"], job.alone()["latents_xxh3"]);
  EXPECT_GE(result["recoveries"], 1);
  std::multiset<std::string> ends;
  for (const auto& node : result["nodes"]) {
    ends.insert(node["status"]);
  }
  EXPECT_EQ(ends, (std::multiset<std::string>{"done", "done", "done", "left"}));
}

/// Workers reach each other only through relays, as through a router that maps
/// ports: the advertised address differs from the bound address.
TEST(LinksOfWorkers, AreMadeWhereWorkersAreAdvertised) {
  LinkJob job(two_parts());
  std::array<std::optional<net::TcpRelay>, 2> relays;
  for (auto& relay : relays) {
    const int port = free_port();
    relay.emplace(static_cast<std::uint16_t>(port));
    job.add_worker({"--bind", "tcp://127.0.0.1:" + std::to_string(port),
                    "--advertise", relay->endpoint()});
  }
  const nlohmann::json result = job.finish();
  EXPECT_EQ(result["latents_xxh3"], job.alone()["latents_xxh3"]);
  EXPECT_EQ(result["recoveries"], 0);
  std::uint64_t fetched = 0;
  for (const auto& node : result["nodes"]) {
    fetched +=
        node["process"] == 0 ? 0 : node["bytes_received"].get<std::uint64_t>();
  }
  const std::uint64_t from_head = result["bytes_sent"];
  EXPECT_GT(fetched, 0U);
  EXPECT_LT(from_head, fetched / 4) << "values went through the coordinator";
  EXPECT_GE(relays[0]->bytes() + relays[1]->bytes(), fetched - from_head);
}

}  // namespace
}  // namespace troupe::test

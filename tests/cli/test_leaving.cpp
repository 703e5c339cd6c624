// What the first process says of those who come, leave and are lost.

#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "tests/cli/link_job.h"

namespace troupe::test {
namespace {

using Arguments = std::vector<std::string>;

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

/// "process 1 (host:42)", as the log has it.
std::string label_of(const nlohmann::json& node) {
  return "process " + std::to_string(node["process"].get<int>()) + " (" +
         std::string(node["name"]) + ")";
}

/// One that two workers take some seconds for.
const Arguments kSecondsOfWork = {"--method", "batch",   "-n",
                                  "120",      "--steps", "50"};

/// Until two processes have done something.
void await_both(LinkJob& job) {
  job.await_images(1);  // now it listens
  job.head().await([&] {
    const nlohmann::json nodes = look(job)["nodes"];
    return nodes.size() == 3 && nodes[1]["rows"] > 0 && nodes[2]["rows"] > 0;
  });
}

/// Waits until the job reports that it has no workers.
nlohmann::json await_waiting(LinkJob& job) {
  nlohmann::json now;
  job.head().await([&] {
    now = look(job);
    return now["waits_for_workers"].get<bool>();
  });
  return now;
}

TEST(Leaving, NamesTheProcessThatIsFrozenAsNodesDo) {
  LinkJob job(kSecondsOfWork, {}, own_tcp_endpoint());
  job.add_worker();
  job.add_worker();
  await_both(job);
  job.worker(0).signal(SIGSTOP);
  const Outcome end = job.outcome();
  job.worker(0).signal(SIGKILL);
  job.worker(0).signal(SIGCONT);
  ASSERT_EQ(end.exit_code, 0) << end.err;
  const nlohmann::json nodes = end.json()["nodes"];
  int frozen = 0;
  for (const nlohmann::json& node : nodes) {
    if (node["status"] == "left") {
      ++frozen;
      const std::string cause = "nothing was heard of process " +
                                std::to_string(node["process"].get<int>()) +
                                " for 1000 ms";
      EXPECT_EQ(node["cause"], cause);
      EXPECT_NE(end.err.find(label_of(node) +
                             " is lost, the job goes on without: " + cause),
                std::string::npos)
          << end.err;
    }
  }
  EXPECT_EQ(frozen, 1);
}

class NobodyIsLeft : public testing::TestWithParam<int> {};

TEST_P(NobodyIsLeft, SoTheJobWaitsForWorkers) {
  LinkJob job(kSomeImages);
  job.add_worker();
  job.await_images(1);
  EXPECT_EQ(look(job)["waits_for_workers"], false);
  job.worker(0).signal(GetParam());
  const nlohmann::json now = await_waiting(job);
  EXPECT_GT(now["fraction"], 0);
  EXPECT_EQ(now["calls_per_second"], 0);
  EXPECT_TRUE(now["seconds_left"].is_null());
  const std::string shown = run({"ls", job.endpoint()}).out;
  const std::string headline = shown.substr(0, shown.find('\n'));
  EXPECT_TRUE(headline.ends_with(" %, waits for workers")) << headline;
  job.add_worker();
  const Outcome end = job.outcome();
  ASSERT_EQ(end.exit_code, 0) << end.err;
  const nlohmann::json result = end.json();
  const std::string says =
      label_of(result["nodes"][1]) +
      (GetParam() == SIGTERM
           ? " has left, the job waits for workers: it was asked to leave\n"
           : " is lost, the job waits for workers: ");
  EXPECT_EQ(count_of(end.err, says), 1U) << end.err;
  EXPECT_EQ(count_of(end.err, "the job goes on without"), 0U) << end.err;
  EXPECT_EQ(count_of(end.err, " elapsed, waits for workers\n"), 1U) << end.err;
  EXPECT_EQ(result["latents_xxh3"], job.alone()["latents_xxh3"]);
}

INSTANTIATE_TEST_SUITE_P(Signals, NobodyIsLeft,
                         testing::Values(SIGTERM, SIGKILL));

TEST(Leaving, AndJoiningAreToldWhenVerbose) {
  Arguments verbose = kSecondsOfWork;
  verbose.emplace_back("-v");
  for (const bool is_verbose : {true, false}) {
    LinkJob job(is_verbose ? verbose : kSecondsOfWork);
    job.add_worker();
    job.add_worker();
    await_both(job);
    job.worker(0).signal(SIGTERM);
    const Outcome end = job.outcome();
    ASSERT_EQ(end.exit_code, 0) << end.err;
    const nlohmann::json nodes = end.json()["nodes"];
    const std::size_t says = is_verbose ? 1 : 0;
    for (const std::size_t process : {1U, 2U}) {
      EXPECT_EQ(count_of(end.err, label_of(nodes[process]) +
                                      " has joined: 1 worker on cpu\n"),
                says)
          << end.err;
    }
    EXPECT_EQ(count_of(end.err,
                       ") has left, the job goes on without: it was asked to "
                       "leave\n"),
              says)
        << end.err;
  }
}

TEST(Leaving, BeforeItJoinsIsToldOnceWithItsReason) {
  LinkJob job({"--method", "batch", "-n", "2"}, TROUPE_DEMO);
  job.add_worker();
  EXPECT_EQ(job.worker(0).wait().exit_code, 2);
  job.add_worker({"-m", TROUPE_DEMO});
  const Outcome end = job.outcome();
  ASSERT_EQ(end.exit_code, 0) << end.err;
  const std::string says =
      label_of(end.json()["nodes"][1]) + " does not join: ";
  EXPECT_EQ(count_of(end.err, says), 1U) << end.err;
  EXPECT_NE(end.err.find("--model-root", end.err.find(says)), std::string::npos)
      << end.err;
}

}  // namespace
}  // namespace troupe::test

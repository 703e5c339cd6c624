// Jobs of several processes: troupe sample --listen and troupe worker --join.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>

#include "tests/cli/link_job.h"

namespace troupe::test {
namespace {

using Arguments = std::vector<std::string>;

Arguments method_of(const std::string& name) {
  if (name == "picard, exact") {
    return {"--method", "picard", "--tolerance", "0", "-n", "3"};
  }
  if (name == "stale, unequal") {
    return {"--method", "stale", "--segment-speeds", "3,1", "-n", "3"};
  }
  Arguments method = {"--method", name, "-n", "3"};
  if (name == "pipeline" || name == "stale") {
    method.insert(method.end(), {"--segments", "2"});
  }
  if (name == "cfg") {
    method.insert(method.end(), {"--guidance", "3"});
  }
  return method;
}

class WorkerProcesses : public testing::TestWithParam<const char*> {};

TEST_P(WorkerProcesses, GiveTheBytesOfOneProcess) {
  LinkJob job(method_of(GetParam()));
  job.add_worker({"--wait", "5"});
  job.add_worker({"--wait", "5"});
  const nlohmann::json together = job.finish();
  EXPECT_EQ(together["latents_xxh3"], job.alone()["latents_xxh3"]);
  EXPECT_EQ(together["recoveries"], 0);
  // The job may be over before the second comes.
  ASSERT_GE(together["nodes"].size(), 2U);
  int workers = 0;
  for (const auto& node : together["nodes"]) {
    EXPECT_EQ(node["status"], "done") << node;
    workers += node["workers"].get<int>();
  }
  EXPECT_GE(workers, 1);
  EXPECT_EQ(together["nodes"][0]["workers"], 0);
  for (const std::size_t worker : {0U, 1U}) {
    const Outcome left = job.worker(worker).wait();
    EXPECT_TRUE(left.exit_code == 0 || left.exit_code == 4) << left.err;
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, WorkerProcesses,
                         testing::Values("sequential", "batch", "cfg", "picard",
                                         "picard, exact", "pipeline", "stale",
                                         "stale, unequal"));

TEST(WorkerProcess, IsANodeOfTheSummaryThatSaysWhatItDid) {
  const Arguments of_job = {"--method", "batch", "-n", "60", "--steps", "50"};
  LinkJob job(of_job);
  job.add_worker();
  job.await_images(2);
  job.add_worker();
  const nlohmann::json result = job.finish();
  std::int64_t rows = 0;
  double busy = 0;
  for (const auto& node : result["nodes"]) {
    rows += node["rows"].get<std::int64_t>();
    EXPECT_GE(node["tasks"], node["rows"]);
    busy += node["busy_seconds"].get<double>();
    EXPECT_GE(node["busy_share"], 0);
    EXPECT_LE(node["busy_share"], 1);
    EXPECT_EQ(node["losses"], 0);
  }
  EXPECT_EQ(rows, result["nfe"]);
  EXPECT_NEAR(busy, result["compute_seconds"], 1e-6);
  const nlohmann::json& head = result["nodes"][0];
  EXPECT_EQ(head["process"], 0);
  EXPECT_EQ(head["rows"], 0);
  EXPECT_EQ(head["busy_share"], 0);
  EXPECT_EQ(head["threads"], 0);
  EXPECT_EQ(head["devices"], nlohmann::json::array()) << "it only directs";
  EXPECT_GT(head["memory_bytes"], 0);
  EXPECT_EQ(head["execution_classes"], nlohmann::json::array());
  for (const std::size_t process : {1U, 2U}) {
    const nlohmann::json& node = result["nodes"][process];
    EXPECT_GE(node["threads"], 1);
    EXPECT_EQ(node["memory_bytes"], head["memory_bytes"]) << "one machine";
    EXPECT_GT(node["available_memory_bytes"], 0);
    EXPECT_EQ(node["devices"][0]["name"], "cpu");
    EXPECT_EQ(node["devices"][0]["memory_bytes"], node["memory_bytes"]);
    EXPECT_EQ(node["execution_classes"],
              nlohmann::json::array({result["execution_class"]}));
  }
  EXPECT_EQ(head["bytes_received"], result["bytes_received"]);
  EXPECT_EQ(head["bytes_sent"], result["bytes_sent"]);
  EXPECT_GT(head["bytes_received"], 0);
  EXPECT_GT(result["nodes"][1]["bytes_sent"], 0);
  EXPECT_GT(result["nodes"][1]["rows"], 0);
  EXPECT_GT(result["nodes"][1]["busy_share"], 0);
  const nlohmann::json alone = job.alone();
  ASSERT_EQ(alone["nodes"].size(), 1U);
  EXPECT_EQ(alone["nodes"][0]["rows"], alone["nfe"]);
  EXPECT_GE(alone["nodes"][0]["threads"], 1);
  EXPECT_EQ(alone["nodes"][0]["devices"].size(), 1U);
  EXPECT_EQ(alone["nodes"][0]["workers"], 1);
  EXPECT_EQ(alone["nodes"][0]["execution_classes"][0],
            alone["execution_class"]);
  EXPECT_EQ(alone["nodes"][0]["bytes_sent"], 0);
}

TEST(WorkerProcess, CountsInTheLastLineForPeople) {
  const TempFolder folder;
  const std::string endpoint = "ipc://" + folder.path("link/a");
  Program head({"sample", "--random-weights", "dit-tiny", "--steps", "2",
                "--workers", "0", "--listen", endpoint, "-o",
                folder.path("out")});
  Program worker({"worker", "--join", endpoint, "--workers", "2", "--threads",
                  "1", "--wait", "20"});
  const Outcome outcome = head.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(" on 2 workers of 1 process,"), std::string::npos)
      << outcome.out;
}

TEST(WorkerProcess, MayBeKilledFrozenOrToldToLeave) {
  for (const int number : {SIGKILL, SIGSTOP, SIGTERM, SIGINT}) {
    LinkJob job({"--method", "batch", "-n", "60", "--steps", "50"});
    job.add_worker();
    job.add_worker();
    job.await_images(4);
    job.worker(1).signal(number);
    const nlohmann::json result = job.finish();
    EXPECT_EQ(result["latents_xxh3"], job.alone()["latents_xxh3"]) << number;
    std::set<std::string> ends;  // whoever came first is the first node
    int losses = 0;
    for (const auto& node : result["nodes"]) {
      ends.insert(node["status"]);
      losses += node["losses"].get<int>();
    }
    EXPECT_EQ(ends, (std::set<std::string>{"done", "left"})) << number;
    EXPECT_EQ(losses, number == SIGTERM ? 0 : 1) << number;
    // One more if a value was on its way home from it: a cut, or a result.
    const int recoveries = result["recoveries"];
    EXPECT_EQ(recoveries > 0, number != SIGTERM) << number;
    if (number == SIGSTOP) {
      job.worker(1).signal(SIGKILL);
      job.worker(1).signal(SIGCONT);
    } else if (number != SIGKILL) {
      const Outcome left = job.worker(1).wait();
      EXPECT_EQ(left.exit_code, number == SIGTERM ? 75 : 130) << left.err;
      EXPECT_NE(left.err.find("left the job"), std::string::npos) << left.err;
    }
  }
}

TEST(WorkerProcess, TakesOverWhereTheLastOneWasLost) {
  LinkJob job({"--method", "picard", "-n", "4", "--steps", "50"});
  job.add_worker();
  job.await_images(1);
  job.worker(0).signal(SIGKILL);
  job.add_worker();
  const nlohmann::json result = job.finish();
  EXPECT_EQ(result["latents_xxh3"], job.alone()["latents_xxh3"]);
  EXPECT_EQ(result["nodes"][1]["status"], "left");
  EXPECT_EQ(result["nodes"][2]["status"], "done");
}

TEST(WorkerProcess, MayBeKilledAgainAndAgainInTheSamePass) {
  // One pass of each image, which takes long.
  LinkJob job(
      {"--method", "batch", "-n", "2", "--steps", "1", "--size", "128x128"});
  for (std::size_t kill = 0; kill < 3; ++kill) {
    job.add_worker();
    job.head().await([&] {
      const nlohmann::json nodes = look(job)["nodes"];
      return nodes.size() == kill + 2 && nodes.back()["workers"] == 1;
    });
    job.worker(kill).signal(SIGKILL);
    (void)job.worker(kill).wait();
  }
  job.add_worker();
  const nlohmann::json result = job.finish();
  EXPECT_EQ(result["latents_xxh3"], job.alone()["latents_xxh3"]);
}

/// Of the workers of a job.
std::ptrdiff_t num_socket_folders(const LinkJob& job) {
  return std::ranges::count_if(job.folder().names(), [](const auto& name) {
    return name.starts_with("troupe-");
  });
}

TEST(WorkerProcess, RemovesTheSocketOfOneThatWasKilled) {
  LinkJob job({"--method", "batch", "-n", "60", "--steps", "50"});
  job.add_worker();
  job.await_images(1);
  EXPECT_EQ(num_socket_folders(job), 1);
  job.worker(0).signal(SIGKILL);
  (void)job.worker(0).wait();
  EXPECT_EQ(num_socket_folders(job), 1) << "a killed process removes nothing";
  job.add_worker();
  EXPECT_EQ(job.finish()["images"].size(), 60U);
  EXPECT_EQ(job.worker(1).wait().exit_code, 0);
  EXPECT_EQ(num_socket_folders(job), 0);
}

TEST(WorkerProcess, EndsWhenTheFirstProcessWasKilled) {
  LinkJob job({"--method", "batch", "-n", "60", "--steps", "50"});
  job.add_worker({"--quiet", "--wait", "2"});
  job.await_images(1);
  job.head().signal(SIGKILL);
  const Outcome left = job.worker(0).wait();
  EXPECT_EQ(left.exit_code, 4) << left.err;
  EXPECT_EQ(left.err_lines(), 1) << left.err;
  EXPECT_NE(left.err.find(job.endpoint()), std::string::npos) << left.err;
  EXPECT_EQ(num_socket_folders(job), 0);
}

TEST(WorkerProcess, JoinsTheNextFirstProcessWhenOneWasKilled) {
  LinkJob job({"--method", "batch", "-n", "60", "--steps", "50"});
  job.add_worker();
  job.await_images(1);
  job.head().signal(SIGKILL);
  (void)job.outcome();
  job.listen_again();
  const nlohmann::json result = job.finish();
  EXPECT_EQ(result["latents_xxh3"], job.alone()["latents_xxh3"]);
  EXPECT_EQ(result["nodes"][1]["status"], "done");
  EXPECT_EQ(job.worker(0).wait().exit_code, 0);
}

TEST(WorkerProcess, NeedsTheKeysOfItsCompany) {
  const TempFolder keys;
  make_keys(keys, "ours");
  make_keys(keys, "theirs");
  LinkJob job(
      {"--method", "batch", "-n", "3", "--secret-file", keys.path("ours.key")});
  job.add_worker({"--secret-file", keys.path("theirs.node"), "--wait", "0.2"});
  const Outcome stranger = job.worker(0).wait();
  EXPECT_EQ(stranger.exit_code, 4) << stranger.err;
  EXPECT_EQ(stranger.err_lines(), 1) << stranger.err;
  job.add_worker({"--secret-file", keys.path("ours.node")});
  const nlohmann::json result = job.finish();
  EXPECT_EQ(result["latents_xxh3"], job.alone()["latents_xxh3"]);
  EXPECT_EQ(result["nodes"].size(), 2U) << "strangers are not seen";
}

void expect_refused(const Arguments& arguments, int code,
                    const std::string& says) {
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.exit_code, code) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
}

TEST(WorkerVerb, SaysWhatIsWrong) {
  const TempFolder folder;
  const std::string nobody = "ipc://" + folder.path("link/none");
  expect_refused({"worker"}, 2, "[--join] missing");
  expect_refused({"worker", "--join", "10.0.0.1:7010"}, 2,
                 "[--join] the endpoint '10.0.0.1:7010' ");
  expect_refused({"worker", "--join", nobody, "--wait", "0.3"}, 4,
                 "[--join] no job was found at " + nobody + " within 0.");
  EXPECT_TRUE(folder.names().empty()) << "a folder is left";
  const std::string keyless =
      "other machines have this address, and there are no keys: got ";
  expect_refused({"worker", "--join", "tcp://10.0.0.1:7010"}, 2,
                 "[--join] " + keyless +
                     "'tcp://10.0.0.1:7010'; give --secret-file (troupe keys "
                     "new makes it)");
  expect_refused(tiny_sample({"--listen", "tcp://0.0.0.0:0", "--class", "1",
                              "-o", folder.path("a.png")}),
                 2, "[--listen] " + keyless);
  expect_refused(tiny_sample({"--listen", "127.0.0.1:7010", "--class", "1",
                              "-o", folder.path("a.png")}),
                 2, "[--listen] the endpoint '127.0.0.1:7010' ");
  expect_refused(tiny_sample({"--listen", "tcp://127.0.0.1:0", "--secret-file",
                              folder.path("none"), "--class", "1", "-o",
                              folder.path("a.png")}),
                 2, "none");
  expect_refused(tiny_sample({"--on-class-change", "wait", "--class", "1", "-o",
                              folder.path("a.png")}),
                 2, "--listen");
}

TEST(WorkerVerb, SaysWhichAddressesMakeNoSense) {
  const TempFolder folder;
  const std::string nobody = "ipc://" + folder.path("link/none");
  const auto expect = [&](Arguments more, const std::string& says) {
    Arguments arguments = {"worker", "--join", nobody, "--wait", "0.1"};
    arguments = overridden(std::move(arguments), more);
    expect_refused(arguments, 2, says);
  };
  expect({"--bind", "10.0.0.1:7010"}, "10.0.0.1:7010");
  expect({"--bind", "tcp://0.0.0.0:0"}, "[--bind]");
  expect({"--advertise", "tcp://10.0.0.1:7010"}, "[--advertise]");
  expect({"--bind", "tcp://127.0.0.1:0", "--advertise", "ipc:///a/b"},
         "[--advertise]");
  expect({"--no-peer", "--bind", "tcp://127.0.0.1:0"}, "[--no-peer]");
  expect({"--no-peer", "--advertise", nobody}, "[--no-peer]");
}

TEST(WorkerVerb, RefusesAJobWhoseModelItHasNot) {
  LinkJob job({"--method", "batch", "-n", "2"}, TROUPE_DEMO);
  job.add_worker({"--model-root", job.folder().path()});
  const Outcome missing = job.worker(0).wait();
  EXPECT_EQ(missing.exit_code, 2) << missing.err;
  EXPECT_NE(missing.err.find("/demo"), std::string::npos) << missing.err;
  job.add_worker();
  const Outcome unnamed = job.worker(1).wait();
  EXPECT_EQ(unnamed.exit_code, 2) << unnamed.err;
  EXPECT_NE(unnamed.err.find("--model-root"), std::string::npos) << unnamed.err;
  job.add_worker({"-m", TROUPE_DEMO});
  const nlohmann::json result = job.finish();
  EXPECT_EQ(result["latents_xxh3"], job.alone()["latents_xxh3"]);
  EXPECT_EQ(result["nodes"].size(), 4U);
  EXPECT_EQ(result["nodes"][1]["status"], "left");
}

TEST(WorkerVerb, StaysWhereItCannotDoAJob) {
  LinkJob job({"--method", "batch", "-n", "2"}, TROUPE_DEMO);
  job.add_worker({"--stay"});
  job.head().await([&] {
    const Outcome seen = run({"ls", job.endpoint(), "--json"});
    return seen.exit_code == 0 && seen.json()["nodes"].size() == 2 &&
           seen.json()["nodes"][1]["status"] == "left";
  });
  job.add_worker({"-m", TROUPE_DEMO});
  (void)job.finish();
  LinkJob next({"-n", "2"}, {}, job.endpoint());
  const nlohmann::json result = next.finish();
  EXPECT_EQ(result["nodes"].size(), 2U);
  EXPECT_EQ(result["nodes"][1]["status"], "done");
  job.worker(0).signal(SIGTERM);
  const Outcome left = job.worker(0).wait();
  EXPECT_EQ(left.exit_code, 75) << left.err;
  const std::string says =
      "this process cannot do the job at " + job.endpoint() + ": ";
  const std::size_t at = left.err.find(says);
  ASSERT_NE(at, std::string::npos) << left.err;
  EXPECT_NE(left.err.find("--model-root", at), std::string::npos) << left.err;
  EXPECT_EQ(left.err.find(says, at + 1), std::string::npos) << left.err;
}

TEST(WorkerVerb, StaysForTheNextJob) {
  auto first = std::make_unique<LinkJob>(Arguments{"-n", "2"});
  first->add_worker({"--stay"});
  const nlohmann::json one = first->finish();
  EXPECT_EQ(one["nodes"][1]["status"], "done");
  first->listen_again();
  const nlohmann::json two = first->finish();
  EXPECT_EQ(two["latents_xxh3"], one["latents_xxh3"]);
  EXPECT_EQ(two["nodes"][1]["status"], "done");
  first->worker(0).signal(SIGTERM);
  EXPECT_EQ(first->worker(0).wait().exit_code, 75);
}

}  // namespace
}  // namespace troupe::test

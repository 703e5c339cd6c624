// What a process says that cannot join a job, or loses it.

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "tests/cli/link_job.h"
#include "tests/cli/pipeline.h"
#include "tests/cli/scrape.h"

namespace troupe::test {
namespace {

using Arguments = std::vector<std::string>;

constexpr const char* kSilent =
    "it takes the connection and says nothing; look whether the address is "
    "right and whether the process there runs";
constexpr const char* kOtherKey =
    "it ends the connection at once: it has another key";

/// It ends with one line that says so.
void expect_end(const Outcome& outcome, int code, const std::string& says) {
  EXPECT_EQ(outcome.exit_code, code) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
}

TEST(Joining, SaysThatAHostSaysNothing) {
  const TempFolder keys;
  make_keys(keys, "ours");
  const SilentPort silent;
  const std::string address = silent.endpoint();
  const std::vector<Arguments> commands = {
      {"ls", address},
      {"cancel", address},
      {"ls", address, "--secret-file", keys.path("ours.key")},
      {"worker", "--join", address, "--wait", "3"},
      {"worker", "--join", address, "--wait", "0.2"},
      {"worker", "--join", address, "--secret-file", keys.path("ours.node")}};
  std::vector<std::unique_ptr<Program>> programs;  // each waits for seconds
  for (const Arguments& command : commands) {
    programs.push_back(std::make_unique<Program>(command));
  }
  for (const auto& program : programs) {
    expect_end(program->wait(), 4, kSilent);
  }
}

TEST(Joining, SaysHowLongItLookedAndWhatLooksLonger) {
  const TempFolder folder;
  const std::string nobody = "ipc://" + folder.path("link/none");
  expect_end(run({"worker", "--join", nobody, "--wait", "1"}), 4,
             "[--join] no job was found at " + nobody + " within 1");
  expect_end(run({"worker", "--join", nobody, "--wait", "1"}), 4,
             " s: it takes no connection, as nobody listens there; --wait 5m "
             "looks longer\n");
}

TEST(Joining, SaysAtOnceThatNobodyKnowsTheHost) {
  const TempFolder keys;
  make_keys(keys, "ours");
  const std::string address = "tcp://no-such-host.invalid:17001";
  const std::string says =
      "the host name 'no-such-host.invalid' is not known here (";
  const Arguments worker = {
      "worker", "--join", address, "--secret-file", keys.path("ours.node"),
      "--wait", "3"};
  const Outcome end = run(worker);
  EXPECT_EQ(end.exit_code, 4) << end.err;
  EXPECT_EQ(end.err.find("troupe: [--join] " + says), 0U) << end.err;
  EXPECT_EQ(end.err_lines(), 2) << end.err;
  EXPECT_NE(end.err.find(" within ", end.err.find('\n')), std::string::npos)
      << end.err;
  Arguments quiet = worker;
  quiet.emplace_back("--quiet");
  expect_end(run(quiet), 4, "look whether it is spelt right");
  for (const char* const verb : {"ls", "cancel"}) {
    expect_end(run({verb, address, "--secret-file", keys.path("ours.key")}), 4,
               std::string("[") + verb + "] " + says);
  }
}

TEST(Joining, SaysThatTheJobHasAnotherKey) {
  const TempFolder keys;
  make_keys(keys, "ours");
  make_keys(keys, "theirs");
  LinkJob job({"--method", "batch", "-n", "4000", "--steps", "50",
               "--secret-file", keys.path("ours.key")});
  job.add_worker({"--secret-file", keys.path("ours.node")});
  job.await_images(1);
  for (const char* const wait : {"0.2", "3"}) {
    expect_end(run({"worker", "--join", job.endpoint(), "--secret-file",
                    keys.path("theirs.node"), "--wait", wait}),
               4, kOtherKey);
    expect_end(run({"worker", "--join", job.endpoint(), "--wait", wait}), 4,
               kOtherKey);
  }
}

/// The first process says it, too, once of each address.
TEST(Joining, IsSaidOfAnotherKeyWhereTheJobIs) {
  const TempFolder keys;
  make_keys(keys, "ours");
  make_keys(keys, "theirs");
  for (const bool is_tcp : {true, false}) {
    LinkJob job({"--method", "batch", "-n", "2", "--secret-file",
                 keys.path("ours.key")},
                {}, is_tcp ? own_tcp_endpoint() : "");
    job.head().await([&] {
      return run({"ls", job.endpoint(), "--secret-file", keys.path("ours.key")})
                 .exit_code == 0;
    });
    for (const char* const file : {"theirs.key", "theirs.node"}) {
      expect_end(run({"worker", "--join", job.endpoint(), "--secret-file",
                      keys.path(file), "--wait", "0.5"}),
                 4, kOtherKey);
    }
    job.add_worker({"--secret-file", keys.path("ours.node")});
    const Outcome outcome = job.outcome();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const std::string says =
        " is refused: it has another company key, or none: give it the file of "
        "this job's --secret-file\n";
    const std::size_t at = outcome.err.find(says);
    ASSERT_NE(at, std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(is_tcp ? "a process at 127." : "a process is"),
              std::string::npos)
        << outcome.err;
    EXPECT_EQ(outcome.err.find(says, at + 1), std::string::npos) << outcome.err;
  }
}

TEST(Joining, EndsWhenTheFirstProcessStandsStill) {
  LinkJob job({"--method", "batch", "-n", "4000", "--steps", "50"});
  // They look for one second only, and the first process may be slow to begin.
  job.head().await(
      [&] { return std::filesystem::exists(job.folder().path("link/a")); });
  job.add_worker({"--wait", "1"});
  job.add_worker({"--wait", "1", "--quiet"});
  job.await_images(1);
  job.head().signal(SIGSTOP);
  for (const std::size_t worker : {0U, 1U}) {
    const Outcome left = job.worker(worker).wait();
    EXPECT_EQ(left.exit_code, 4) << left.err;
    EXPECT_NE(left.err.find(kSilent), std::string::npos) << left.err;
    // The worker without --quiet also reports the beginning and the loss of the
    // job.
    EXPECT_EQ(left.err_lines(), worker == 0 ? 3 : 1) << left.err;
    EXPECT_EQ(left.err.find("nothing was heard of " + job.endpoint()) !=
                  std::string::npos,
              worker == 0)
        << left.err;
  }
  job.head().signal(SIGKILL);
  job.head().signal(SIGCONT);
}

TEST(Joining, SaysAtOnceThatAProcessIsLostAndNamesNoDeviceOfItsOwn) {
  LinkJob job({"--method", "batch", "-n", "60", "--steps", "50"});
  job.add_worker();
  job.add_worker();
  job.await_images(1);
  job.worker(0).signal(SIGKILL);
  const Outcome end = job.head().wait();
  ASSERT_EQ(end.exit_code, 0) << end.err;
  EXPECT_NE(end.err.find(" is lost, the job goes on without: "),
            std::string::npos)
      << end.err;
  EXPECT_EQ(end.err.find("cpu was lost"), std::string::npos) << end.err;
  const nlohmann::json summary = end.json();
  for (const auto& device : summary["devices"]) {
    EXPECT_NE(device["status"], "lost") << device;
  }
}

TEST(Joining, NamesTheOptionWhoseAddressIsTaken) {
  const TempFolder folder;
  const SilentPort taken;
  const std::string says = " cannot listen at '" + taken.endpoint() +
                           "': Address already in use; give another address";
  const Arguments job =
      tiny_sample({"--class", "1", "-o", folder.path("a.png")});
  Arguments listens = job;
  listens.insert(listens.end(), {"--listen", taken.endpoint()});
  expect_end(run(listens), 2, "[--listen]" + says);
  expect_end(run(job, {"TROUPE_LISTEN=" + taken.endpoint()}), 2,
             "[TROUPE_LISTEN]" + says);
  const Arguments worker = {"worker", "--join",
                            "ipc://" + folder.path("link/none")};
  Arguments binds = worker;
  binds.insert(binds.end(), {"--bind", taken.endpoint()});
  expect_end(run(binds), 2, "[--bind]" + says);
  EXPECT_TRUE(folder.names().empty());
}

TEST(Joining, NamesTheOptionWhoseSocketIsTaken) {
  LinkJob first({"--method", "batch", "-n", "4000", "--steps", "50"});
  first.add_worker();
  first.await_images(1);
  expect_end(
      run(tiny_sample({"--class", "1", "-o", first.folder().path("b.png"),
                       "--listen", first.endpoint()})),
      2, "[--listen] another process listens at '" + first.endpoint());
}

/// Changes the last bit of the last weight.
void change_a_weight(const std::filesystem::path& file) {
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekg(-1, std::ios::end);
  const int last = bytes.get();
  bytes.seekp(-1, std::ios::end);
  bytes.put(static_cast<char>(last ^ 1));
  ASSERT_TRUE(bytes.good());
}

TEST(Joining, RefusesOtherWeightsThanTheJobs) {
  const TempFolder own;
  const std::filesystem::path copy = own.path("demo");
  std::filesystem::copy(TROUPE_DEMO, copy,
                        std::filesystem::copy_options::recursive);
  LinkJob job({"--method", "batch", "-n", "2"}, TROUPE_DEMO);
  job.add_worker({"-m", copy});
  EXPECT_EQ(job.finish()["nodes"].size(), 2U) << "a copy is as good";
  change_a_weight(copy / kWeights);
  job.listen_again();
  for (const Arguments& model :
       {Arguments{"-m", copy}, Arguments{"--model-root", own.path()}}) {
    job.add_worker(model);
    expect_end(job.worker(job.num_workers() - 1).wait(), 2,
               "other weights than the job's: got ");
  }
  job.add_worker({"-m", TROUPE_DEMO});
  const nlohmann::json result = job.finish();
  ASSERT_EQ(result["nodes"].size(), 4U);
  for (const std::size_t refused : {1U, 2U}) {
    EXPECT_EQ(result["nodes"][refused]["status"], "left");
    EXPECT_NE(std::string(result["nodes"][refused]["cause"])
                  .find("other weights than the job's"),
              std::string::npos);
    EXPECT_EQ(result["nodes"][refused]["rows"], 0);
  }
  EXPECT_EQ(result["latents_xxh3"], job.alone()["latents_xxh3"]);
}

/// Changes a bit of the first tensor of the demo model whose name begins so.
void change_a_tensor(const std::filesystem::path& model,
                     const std::string& prefix) {
  std::fstream file(model / kWeights,
                    std::ios::in | std::ios::out | std::ios::binary);
  std::uint64_t size = 0;
  file.read(reinterpret_cast<char*>(&size), sizeof(size));
  std::string text(size, ' ');
  file.read(text.data(), static_cast<std::streamsize>(size));
  const nlohmann::json header = nlohmann::json::parse(text);
  for (const auto& [name, entry] : header.items()) {
    if (name.starts_with(prefix)) {
      const auto at = static_cast<std::streamoff>(
          sizeof(size) + size + entry["data_offsets"][0].get<std::uint64_t>());
      file.seekg(at);
      const int byte = file.get();
      file.seekp(at);
      file.put(static_cast<char>(byte ^ 1));
      ASSERT_TRUE(file.good());
      return;
    }
  }
  FAIL() << prefix;
}

/// Jobs of a pipeline of two segments: a worker reads only what it computes.
class PartOfAModel : public testing::Test {
 protected:
  PartOfAModel() {
    std::filesystem::copy(TROUPE_DEMO, copy_,
                          std::filesystem::copy_options::recursive);
  }
  LinkJob& begin(const std::string& num_images) {
    return job_.emplace(
        Arguments{"--method", "pipeline", "--segments", "2", "-n", num_images},
        TROUPE_DEMO);
  }
  /// The first to join has the first segment.
  void join_and_finish(const Arguments& first, const Arguments& second) {
    LinkJob& job = begin("30");  // the first does not finish it alone
    job.add_worker(first);
    job.head().await([&] {
      const Outcome seen = run({"ls", job.endpoint(), "--json"});
      if (seen.exit_code != 0) {
        return false;
      }
      const nlohmann::json nodes = seen.json()["nodes"];
      return nodes.size() == 2 && nodes[1]["workers"] == 1;  // it has joined
    });
    job.add_worker(second);
    const Outcome outcome = job.outcome();
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    result_ = outcome.json();
    said_ = outcome.err;
    EXPECT_EQ(result_["latents_xxh3"], job.alone()["latents_xxh3"]);
  }

  const TempFolder own_;
  const std::filesystem::path copy_ = own_.path("demo");
  std::optional<LinkJob> job_;
  nlohmann::json result_;
  std::string said_;
};

TEST_F(PartOfAModel, IsAllThatAWorkerReads) {
  change_a_tensor(copy_, "transformer_blocks.1.");  // of the first segment
  join_and_finish({"-m", TROUPE_DEMO}, {"-m", copy_});
  EXPECT_EQ(result_["recoveries"], 0);
  EXPECT_EQ(result_["nodes"][2]["status"], "done") << result_["nodes"][2];
  EXPECT_GT(result_["nodes"][2]["tasks"], 0) << result_["nodes"][2];
}

TEST_F(PartOfAModel, ThatIsAnotherCostsItsWorker) {
  change_a_tensor(copy_, "transformer_blocks.11.");
  join_and_finish({"-m", TROUPE_DEMO}, {"-m", copy_});
  EXPECT_EQ(result_["nodes"][2]["losses"], 1) << result_["nodes"][2];
  EXPECT_EQ(result_["nodes"][2]["rows"], 0);
  const Outcome left = job_->worker(1).wait();
  EXPECT_EQ(left.exit_code, 2) << left.err;
  EXPECT_NE(left.err.find("other weights than the job's: [transformer_blocks."),
            std::string::npos)
      << left.err;
  for (const std::string& err : {left.err, said_}) {
    EXPECT_NE(err.find("its part of the model cannot be read: "
                       "[transformer_blocks.11."),
              std::string::npos)
        << err;
  }
}

/// The job waits for another worker meanwhile.
TEST_F(PartOfAModel, ThatIsAnotherSendsTheOnlyWorkerAwayAtOnce) {
  change_a_tensor(copy_, "transformer_blocks.11.");
  LinkJob& job =
      job_.emplace(Arguments{"--method", "stale", "--segments", "2", "-n", "2"},
                   TROUPE_DEMO);
  job.add_worker({"-m", copy_});
  const Outcome left = job.worker(0).wait();
  EXPECT_EQ(left.exit_code, 2) << left.err;
  EXPECT_NE(left.err.find("other weights than the job's: "), std::string::npos)
      << left.err;
  job.add_worker({"-m", TROUPE_DEMO});
  EXPECT_EQ(job.finish()["latents_xxh3"], job.alone()["latents_xxh3"]);
}

TEST_F(PartOfAModel, IsLookedAtBeforeAWorkerJoins) {
  change_a_tensor(copy_, "transformer_blocks.0.");
  LinkJob& job = begin("2");
  job.add_worker({"-m", copy_});
  expect_end(job.worker(0).wait(), 2, "other weights than the job's: ");
  job.add_worker({"-m", TROUPE_DEMO});
  EXPECT_EQ(job.finish()["latents_xxh3"], job.alone()["latents_xxh3"]);
}

}  // namespace
}  // namespace troupe::test

// Before a job begins: it waits for workers (--wait-workers), and --method auto
// counts the workers that are there.

#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/link_job.h"

namespace troupe::test {
namespace {

using Arguments = std::vector<std::string>;

/// A job of one image that guidance makes two branches of: cfg if two workers
/// are there, and else sequential.
class WaitingJob : public testing::Test {
 protected:
  static Arguments sample(const Arguments& more) {
    Arguments arguments = {
        "sample", "--random-weights", "dit-tiny", "--steps", "4", "--dtype",
        "f32",    "--threads",        "1",        "--class", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  void start(const Arguments& more, const std::string& workers = "0") {
    Arguments arguments =
        sample({"--workers", workers, "--listen", endpoint(), "-o",
                folder_.path("a.png"), "--exists", "replace", "--json"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    head_ = std::make_unique<Program>(arguments);
  }
  void add_worker(const std::string& workers = "1") {
    workers_.push_back(std::make_unique<Program>(
        Arguments{"worker", "--join", endpoint(), "--workers", workers,
                  "--threads", "1", "--wait", "20", "--no-peer"}));
  }
  /// What troupe ls says; empty: nobody listens yet.
  [[nodiscard]] nlohmann::json look() const {
    const Outcome seen = run({"ls", endpoint(), "--json"});
    return seen.exit_code == 0 ? seen.json() : nlohmann::json();
  }
  /// Until so many worker processes are there, and the job waits all the same.
  void await_waiting_with(std::size_t processes) const {
    head_->await([&] {
      const nlohmann::json now = look();
      return !now.is_null() && now["waits_for_workers"].get<bool>() &&
             now["nodes"].size() == processes + 1;
    });
  }
  /// The job's summary, after its workers have ended as at the end of a job.
  nlohmann::json finish(Outcome& outcome) {
    outcome = head_->wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    expect_that_workers_end();
    return outcome.json();
  }
  void expect_that_workers_end() {
    for (const auto& worker : workers_) {
      const Outcome end = worker->wait();
      EXPECT_EQ(end.exit_code, 0) << end.err;
      expect_said(end, "the job is over");
    }
    workers_.clear();
  }
  static void expect_said(const Outcome& outcome, const std::string& says) {
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  }
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }

  TempFolder folder_;
  std::string endpoint_ = "ipc://" + folder_.path("link/a");
  std::unique_ptr<Program> head_;
  std::vector<std::unique_ptr<Program>> workers_;
};

/// Not by the cores of the process that computes nothing.
TEST_F(WaitingJob, ChoosesItsMethodByTheWorkersThatAreThere) {
  std::string hash;
  for (const auto& [workers, method] :
       {std::pair{"1", "sequential"}, {"2", "cfg"}}) {
    start({});
    add_worker(workers);
    Outcome outcome;
    const nlohmann::json result = finish(outcome);
    EXPECT_EQ(result["method"], method);
    EXPECT_EQ(result["workers"], std::stoi(workers));
    expect_said(outcome, "listening at " + endpoint() +
                             ": waiting for 1 worker process, however long "
                             "that takes\n");
    expect_said(outcome, std::string("the job begins: ") + method + ", with " +
                             workers + " worker");
    if (hash.empty()) {
      hash = result["latents_xxh3"];
    }
    EXPECT_EQ(result["latents_xxh3"], hash);
  }
}

TEST_F(WaitingJob, TakesWithinMaxRmseWhatPaysWithTheWorkersThatAreThere) {
  const std::string table = folder_.path("methods.json");
  ASSERT_EQ(run({"bench",    "methods",     "--random-weights", "dit-tiny",
                 "--steps",  "4",           "--dtype",          "f32",
                 "--class",  "1",           "--guidance",       "1",
                 "-n",       "8",           "--emulate",        "2",
                 "--method", "draft,stale", "--calibrate",      "--out",
                 table})
                .exit_code,
            0);
  for (const auto& [workers, method] :
       {std::pair{"1", "sequential"}, {"3", "draft"}}) {
    start({"--guidance", "1", "--max-rmse", "100", "--method-table", table});
    add_worker(workers);
    Outcome outcome;
    EXPECT_EQ(finish(outcome)["method"], method);
    expect_said(outcome, std::string("auto: ") + method);
    expect_said(outcome, std::string("the job begins: ") + method);
    const Outcome again =
        run({"sample", "--from", folder_.path("a.png"), "--dry-run", "--json"});
    EXPECT_EQ(again.json()["method"], method);
  }
}

TEST_F(WaitingJob, WaitsForAsManyProcessesAsAreAskedFor) {
  start({"--wait-workers", "2"});
  add_worker();
  await_waiting_with(1);
  EXPECT_EQ(look()["method"], "auto");
  workers_[0]->signal(SIGKILL);
  workers_.clear();
  await_waiting_with(0);
  add_worker();
  await_waiting_with(1);
  add_worker();
  Outcome outcome = head_->wait();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["method"], "cfg");
  expect_said(outcome, ": waiting for 2 worker processes, however long that");
  expect_said(outcome, "troupe: 0 worker processes here\n");
  expect_said(outcome, "troupe: 2 worker processes here\n");
  expect_said(outcome, "the job begins: cfg, with 2 workers in other process");
  // The last worker may find that the job begins at once.
  expect_said(workers_[0]->wait(),
              "the job at " + endpoint() + " has not begun: waiting for it");
}

TEST_F(WaitingJob, BeginsWithThoseWhoAreThereWhenTheTimeIsOver) {
  start({"--wait-workers", "5,0.2s"}, "1");
  Outcome outcome;
  const nlohmann::json result = finish(outcome);
  EXPECT_EQ(result["method"], "sequential");
  expect_said(outcome, ": waiting for 5 worker processes until ");
  expect_said(outcome, "the job begins: sequential, with 0 workers in other");
  start({"--wait-workers", "0.2s", "--method", "cfg"}, "1");
  EXPECT_EQ(finish(outcome)["method"], "cfg");
  expect_said(outcome, ": waiting for worker processes until ");
}

TEST_F(WaitingJob, CountsItsOwnWorkersToo) {
  start({"--wait-workers", "1"}, "1");
  add_worker();
  Outcome outcome = head_->wait();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["method"], "cfg");
}

TEST_F(WaitingJob, SaysWhereAMethodDoesNotPayWithThoseWhoCame) {
  start({"--wait-workers", "1", "--method", "picard"});
  add_worker();
  Outcome outcome = head_->wait();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  expect_said(outcome, "picard cannot gain with 1 sample on 1 worker: ");
}

/// Nobody else has workers: the first process that comes is waited for.
TEST_F(WaitingJob, NeedsOneWhereItComputesNothing) {
  start({"--wait-workers", "0.1s"});
  await_waiting_with(0);
  add_worker();
  Outcome outcome;
  EXPECT_EQ(finish(outcome)["method"], "sequential");
  expect_said(outcome, ", and then for the first one\n");
}

TEST_F(WaitingJob, EndsWithASignalOrACancel) {
  const auto expect_end = [&](int code) {
    Outcome outcome = head_->wait();
    EXPECT_EQ(outcome.exit_code, code) << outcome.err;
    expect_said(outcome, "stopped while the job waited for workers");
    expect_that_workers_end();
  };
  for (const auto& [number, code] : {std::pair{SIGINT, 130}, {SIGTERM, 75}}) {
    start({"--wait-workers", "2"});
    add_worker();
    await_waiting_with(1);
    head_->signal(number);
    expect_end(code);
  }
  start({"--wait-workers", "2"});
  add_worker();
  await_waiting_with(1);
  EXPECT_EQ(run({"cancel", endpoint()}).exit_code, 0);
  expect_end(9);
}

TEST_F(WaitingJob, IsRefusedWhereNobodyCanCome) {
  const auto expect_refused = [](Arguments more, const std::string& says) {
    more.insert(more.end(), {"-o", "a.png"});
    const Outcome outcome = run(sample(more));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    expect_said(outcome, says);
  };
  expect_refused({"--wait-workers", "4,30s"},
                 "[--wait-workers] nobody can come to a job that does not "
                 "listen: got 4,30s; add --listen ADDR");
  expect_refused({"--wait-workers", "soon", "--listen", endpoint()},
                 "[--wait-workers] cannot use this value: got 'soon'");
}

TEST_F(WaitingJob, IsPlannedAsFarAsItIsKnown) {
  const std::string known =
      "sequential, or cfg if enough workers are there when the job begins";
  const auto plan = [](Arguments more) {
    more.insert(more.end(), {"--workers", "1", "--dry-run"});
    return run(sample(more));
  };
  const Outcome open = plan({"--listen", endpoint()});
  EXPECT_NE(open.out.find("method     " + known + "\n"), std::string::npos)
      << open.out;
  expect_said(open, "--method auto takes " + known);
  const Outcome settled = plan({"--listen", endpoint(), "--guidance", "1"});
  EXPECT_NE(settled.out.find("method     sequential\n"), std::string::npos)
      << settled.out;
  expect_said(
      run(sample({"--workers", "1", "--listen", endpoint(), "--print-job"})),
      "--method auto takes " + known);
  // A job of several images: a further worker draws an image of its own.
  const Outcome several =
      plan({"--listen", endpoint(), "--guidance", "1", "-n", "3"});
  EXPECT_NE(several.out.find("method     batch\n"), std::string::npos)
      << several.out;
}

}  // namespace
}  // namespace troupe::test

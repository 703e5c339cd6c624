// Prompts that a worker's process encodes: troupe sample --encode-on.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/link_job.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;

using Arguments = std::vector<std::string>;

/// A job of a pipeline with two text encoders whose first process encodes
/// nothing, and its workers.
class EncodingElsewhere : public testing::Test {
 protected:
  static Arguments model_of(const std::string& folder) {
    return folder.empty() ? Arguments{"--random-weights", "tiny-sdxl"}
                          : Arguments{"--model", folder};
  }
  /// The job; where it is encoded is said in `more`.
  [[nodiscard]] Arguments sample(Arguments more) const {
    Arguments arguments = {"sample",     "--steps",   "2",        "--dtype",
                           "f32",        "--threads", "1",        "--json",
                           "--progress", "none",      "--exists", "replace"};
    const Arguments model = model_of(folder_of_model_);
    arguments = overridden(std::move(arguments), model);
    arguments = overridden(std::move(arguments), prompts_);
    arguments = overridden(std::move(arguments), more);
    return arguments;
  }
  void start(Arguments more = {}) {
    more.insert(more.end(), {"--workers", "0", "--listen", endpoint(),
                             "--encode-on", "workers", "-o", out()});
    head_ = std::make_unique<Program>(sample(std::move(more)));
  }
  void add_worker(const Arguments& more = {}) {
    Arguments arguments = {"worker", "--join",    endpoint(), "--workers",
                           "1",      "--threads", "1",        "--wait",
                           "20",     "--no-peer"};
    arguments = overridden(std::move(arguments), more);
    workers_.push_back(std::make_unique<Program>(arguments));
  }
  /// The summary of the job when a single process encodes and samples.
  [[nodiscard]] nlohmann::json alone(Arguments more = {}) const {
    more.insert(more.end(), {"--workers", "1", "-o", home_.path("out")});
    const Outcome outcome = run(sample(std::move(more)));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json();
  }
  /// Every picture has the bytes, recipe included, of one that is encoded at
  /// home.
  void expect_bytes_of_home(const Outcome& outcome,
                            const Arguments& more = {}) const {
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const nlohmann::json own = alone(more);
    const nlohmann::json its = outcome.json();
    EXPECT_EQ(its["latents_xxh3"], own["latents_xxh3"]);
    EXPECT_GT(its["encode_seconds"].get<double>(), 0);
    ASSERT_EQ(its["images"].size(), own["images"].size());
    for (std::size_t i = 0; i < own["images"].size(); ++i) {
      const auto name = [&](const nlohmann::json& of) {
        return fs::path(of["images"][i]["path"].get<std::string>())
            .filename()
            .string();
      };
      EXPECT_EQ(home_.read("out/" + name(own)),
                folder_.read("out/" + name(its)));
    }
  }
  /// Until a worker encodes, and so many processes are there.
  void await_encoder(std::size_t processes) const {
    head_->await([&] {
      const Outcome seen = run({"ls", endpoint(), "--json"});
      if (seen.exit_code != 0) {
        return false;
      }
      const nlohmann::json nodes = seen.json()["nodes"];
      return nodes.size() == processes + 1 &&
             std::ranges::any_of(nodes, [](const nlohmann::json& node) {
               return node["status"] == "encodes";
             });
    });
  }
  /// A worker encodes many prompts, and was frozen while it did.
  void start_with_frozen_encoder() {
    use_many_prompts();
    start();
    add_worker();
    await_encoder(1);
    workers_[0]->signal(SIGSTOP);
  }
  /// The first of the two is the frozen encoder.
  void start_with_two_workers() {
    start_with_frozen_encoder();
    add_worker();
    await_encoder(2);
  }
  /// Until the loss of the only process is known.
  void await_nobody() const {
    head_->await([&] {
      const Outcome seen = run({"ls", endpoint(), "--json"});
      return seen.exit_code == 0 && seen.json()["nodes"].size() == 1;
    });
  }
  /// Whether the only process that has come does not encode.
  [[nodiscard]] bool is_declined() const {
    const Outcome seen = run({"ls", endpoint(), "--json"});
    return seen.exit_code == 0 && seen.json()["nodes"].size() == 2 &&
           seen.json()["waits_for_workers"].get<bool>();
  }
  /// So many that encoding them takes a while: of small pictures, since every
  /// text that is encoded is drawn.
  void use_many_prompts() {
    const int many = is_sanitized() ? 150 : 600;
    std::string lines;
    for (int i = 0; i < many; ++i) {
      lines += "fox " + std::to_string(i) + "\n";
    }
    prompts_ = {"--prompt-file", folder_.write("prompts.txt", lines),
                "--size",        "16",
                "--steps",       "1",
                "--guidance",    "1"};
  }
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }
  [[nodiscard]] std::string out() const { return folder_.path("out"); }
  static void expect_said(const Outcome& outcome, const std::string& says) {
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  }

  TempFolder folder_;
  TempFolder home_;
  std::string endpoint_ = "ipc://" + folder_.path("link/a");
  std::string folder_of_model_;  ///< empty: random weights
  Arguments prompts_ = {"-p",   "a red fox", "--negative-prompt",
                        "rain", "-n",        "2"};
  std::unique_ptr<Program> head_;
  std::vector<std::unique_ptr<Program>> workers_;
};

TEST_F(EncodingElsewhere, GivesTheBytesOfHome) {
  start();
  add_worker();
  const Outcome outcome = head_->wait();
  expect_bytes_of_home(outcome);
  expect_said(outcome, "listening at " + endpoint());
  expect_said(outcome, "a worker that comes is to encode the prompts");
  const Outcome worker = workers_[0]->wait();
  EXPECT_EQ(worker.exit_code, 0) << worker.err;
  expect_said(worker, "encodes 4 texts for the job at " + endpoint());
  expect_said(worker, "the job is over");
}

TEST_F(EncodingElsewhere, IsOfTheLayersThatAreWanted) {
  prompts_ = {"-p", "a red fox", "--prompt-2", "oil", "--clip-skip", "1"};
  start();
  add_worker();
  expect_bytes_of_home(head_->wait());
}

/// The job's own links stand where those before it stood.
TEST_F(EncodingElsewhere, GoesOverTcpWithKeys) {
  make_keys(folder_, "ours");
  endpoint_ = own_tcp_endpoint();
  start({"--secret-file", folder_.path("ours.key")});
  add_worker({"--secret-file", folder_.path("ours.node")});
  add_worker({"--secret-file", folder_.path("ours.node")});
  expect_bytes_of_home(head_->wait());
  for (const auto& worker : workers_) {
    EXPECT_EQ(worker->wait().exit_code, 0);
  }
}

TEST_F(EncodingElsewhere, GoesOnWhereTheEncoderIsKilled) {
  start_with_frozen_encoder();
  workers_[0]->signal(SIGKILL);
  await_nobody();
  add_worker();
  const Outcome outcome = head_->wait();
  expect_bytes_of_home(outcome);
  expect_said(outcome,
              "does not encode the prompts, they wait for another worker: ");
  EXPECT_EQ(workers_[1]->wait().exit_code, 0);
}

TEST_F(EncodingElsewhere, AsksTheOtherOfTwoWhereTheFirstIsKilled) {
  start_with_two_workers();
  EXPECT_NE(run({"ls", endpoint()}).out.find("(encodes the prompts)"),
            std::string::npos);
  workers_[0]->signal(SIGKILL);
  const Outcome outcome = head_->wait();
  expect_bytes_of_home(outcome);
  expect_said(outcome, "does not encode the prompts, another worker is asked");
  EXPECT_EQ(workers_[1]->wait().exit_code, 0);
}

TEST_F(EncodingElsewhere, AWorkerMayLeaveWhileItEncodes) {
  start_with_frozen_encoder();
  workers_[0]->signal(SIGTERM);
  workers_[0]->signal(SIGCONT);
  const Outcome left = workers_[0]->wait();
  EXPECT_EQ(left.exit_code, 75) << left.err;
  add_worker();
  expect_bytes_of_home(head_->wait());
}

/// It has the network, and does the job all the same.
TEST_F(EncodingElsewhere, AsksTheNextWhereOneLacksTheEncoder) {
  folder_of_model_ = TROUPE_GOLDEN + std::string("/pipeline_sdxl");
  const std::string bare = folder_.path("bare");
  fs::copy(folder_of_model_, bare, fs::copy_options::recursive);
  fs::remove_all(fs::path(bare) / "text_encoder_2");
  prompts_ = {"-p", "a red fox"};
  start({"-v"});
  add_worker({"--model", bare});
  head_->await([&] { return is_declined(); });
  add_worker({"--model-root", TROUPE_GOLDEN});
  const Outcome outcome = head_->wait();
  expect_bytes_of_home(outcome);
  expect_said(outcome, "process 1 (");
  expect_said(outcome, "text_encoder_2] the pipeline has no text encoder");
  for (const auto& worker : workers_) {
    const Outcome end = worker->wait();
    EXPECT_EQ(end.exit_code, 0) << end.err;
  }
}

/// The encoder takes 17.8 GiB.
TEST_F(EncodingElsewhere, SaysThatAWorkerHasTooLittleMemory) {
  if (is_sanitized()) {
    GTEST_SKIP() << "a sanitizer's shadow needs the whole address space";
  }
  head_ = std::make_unique<Program>(
      Arguments{"sample", "--random-weights", "pixart-sigma-xl-2", "--dtype",
                "f32", "-p", "a fox", "--workers", "0", "--listen", endpoint(),
                "--encode-on", "workers", "-o", folder_.path("a.png")});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit lowered{rlim_t{1} << 31U, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &lowered), 0);
  add_worker();  // it gets the limit
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  head_->await([&] { return is_declined(); });
  head_->signal(SIGINT);
  const Outcome outcome = head_->wait();
  EXPECT_EQ(outcome.exit_code, 130) << outcome.err;
  expect_said(outcome,
              "they wait for another worker: [memory] the text encoder does "
              "not fit: got ");
  const Outcome worker = workers_[0]->wait();
  EXPECT_EQ(worker.exit_code, 0) << worker.err;
  expect_said(worker, "does not encode them: [memory] the text encoder does ");
}

TEST_F(EncodingElsewhere, RefusesOtherWeightsThanTheJobs) {
  folder_of_model_ = TROUPE_GOLDEN + std::string("/pipeline_sdxl");
  const std::string other = folder_.path("other");
  fs::copy(folder_of_model_, other, fs::copy_options::recursive);
  const std::string weights = "other/text_encoder/model.safetensors";
  std::string bytes = folder_.read(weights);
  bytes[bytes.size() - 1] = static_cast<char>(bytes.back() ^ 1);
  (void)folder_.write(weights, bytes);
  prompts_ = {"-p", "a red fox"};
  start();
  add_worker({"--model", other});
  head_->await([&] { return is_declined(); });
  add_worker({"--model-root", TROUPE_GOLDEN});
  const Outcome outcome = head_->wait();
  expect_bytes_of_home(outcome);
  expect_said(outcome, "other weights of text_encoder than the job's: got ");
}

TEST_F(EncodingElsewhere, NeedsNobodyForWhatTheCacheHas) {
  const std::string cache = folder_.path("cache");
  start({"--cache", cache});
  add_worker();
  expect_bytes_of_home(head_->wait());
  EXPECT_EQ(workers_[0]->wait().exit_code, 0);
  const auto texts = [&] {
    return std::ranges::count_if(
        fs::directory_iterator(cache + "/encoded"), [](const auto& file) {
          return file.path().extension() == ".safetensors";
        });
  };
  EXPECT_EQ(texts(), 4);
  // What a worker encoded is found by a run that encodes at home.
  const Outcome home =
      run(sample({"-v", "--cache", cache, "--workers", "1", "-o", out()}));
  expect_said(home, "4 texts encoded before");
  start({"--cache", cache});
  add_worker();
  const Outcome again = head_->wait();
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.err.find("is to encode"), std::string::npos) << again.err;
  EXPECT_EQ(again.json()["latents_xxh3"], home.json()["latents_xxh3"]);
  const Outcome worker = workers_[1]->wait();
  EXPECT_EQ(worker.err.find("encodes"), std::string::npos) << worker.err;
  // Only the new prompt is encoded: one text for each encoder.
  prompts_ = {"-p", "a red fox", "--negative-prompt", "snow", "-n", "2"};
  start({"--cache", cache});
  add_worker();
  expect_bytes_of_home(head_->wait());
  expect_said(workers_[2]->wait(), "encodes 2 texts ");
  EXPECT_EQ(texts(), 6);
}

TEST_F(EncodingElsewhere, EndsWithItsSignalAndLetsTheWorkersGo) {
  for (const int number : {SIGINT, SIGTERM}) {
    start();
    head_->await([&] {
      return run({"ls", endpoint(), "--json"}).exit_code == 0;
    });
    head_->signal(number);
    const Outcome outcome = head_->wait();
    EXPECT_EQ(outcome.exit_code, number == SIGINT ? 130 : 75) << outcome.err;
    expect_said(outcome, "[prompt] stopped before it was encoded");
  }
  start_with_two_workers();
  const Outcome cancelled = run({"cancel", endpoint()});
  EXPECT_EQ(cancelled.exit_code, 0) << cancelled.err;
  workers_[0]->signal(SIGCONT);
  const Outcome ended = head_->wait();
  EXPECT_EQ(ended.exit_code, 9);
  expect_said(ended, "[prompt] cancelled by ");
  expect_said(ended, ": stopped before it was encoded");
  EXPECT_EQ(ended.json()["status"], "cancelled");
  for (const auto& worker : workers_) {
    const Outcome end = worker->wait();
    EXPECT_EQ(end.exit_code, 0) << end.err;
    expect_said(end, "the job is over");
  }
}

TEST_F(EncodingElsewhere, NeedsAnAddressAndPrompts) {
  const Outcome outcome = run(sample({"--encode-on", "workers", "-o", out()}));
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  expect_said(outcome,
              "[--encode-on] nobody can come to a job that does not listen: "
              "got workers; add --listen ADDR, or give here");
  const std::string file = folder_.path("fox.safetensors");
  ASSERT_EQ(run({"encode", "--random-weights", "tiny-sdxl", "-p", "a red fox",
                 "--dtype", "f32", "-o", file})
                .exit_code,
            0);
  prompts_ = {"--prompt-embeds", file};
  start();
  add_worker();
  const Outcome given = head_->wait();
  ASSERT_EQ(given.exit_code, 0) << given.err;
  EXPECT_EQ(given.json()["encode_seconds"], 0);
  EXPECT_EQ(given.json()["latents_xxh3"], alone()["latents_xxh3"]);
  EXPECT_EQ(workers_[0]->wait().err.find("encodes"), std::string::npos);
}

TEST_F(EncodingElsewhere, TakesNoMemoryHere) {
  const auto plan = [](Arguments more) {
    Arguments arguments = {"sample",
                           "--random-weights",
                           "pixart-sigma-xl-2",
                           "--size",
                           "64x64",
                           "--no-resolution-bins",
                           "--dtype",
                           "f32",
                           "--workers",
                           "1",
                           "-p",
                           "a fox",
                           "--dry-run",
                           "--json"};
    arguments = overridden(std::move(arguments), more);
    return arguments;
  };
  const auto bytes = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json()["plan"]["memory_bytes"].get<std::uint64_t>();
  };
  const Arguments listens = {"--listen", "ipc://" + folder_.path("link/b")};
  const auto with = [&](const std::string& where) {
    Arguments more = listens;
    more.insert(more.end(), {"--encode-on", where});
    return plan(more);
  };
  // The encoder takes 17.8 GiB.
  const std::uint64_t encoder = bytes(run(with("here")));
  EXPECT_LT(bytes(run(with("workers"))), encoder / 2);
  if (is_sanitized()) {
    GTEST_SKIP() << "a sanitizer's shadow needs the whole address space";
  }
  const Outcome gives_way = run_in_2_gib(plan(listens));
  EXPECT_LT(bytes(gives_way), encoder / 2);
  expect_said(gives_way, "the text encoder does not fit here (");
  EXPECT_EQ(bytes(run_in_2_gib(plan({}))), encoder) << "nobody can come";
  const Outcome printed = run(sample(
      {"--listen", listens[1], "--encode-on", "workers", "--print-job"}));
  EXPECT_EQ(printed.exit_code, 2) << printed.err;
  expect_said(printed, "[--print-job] a worker is to encode the prompts");
}

}  // namespace
}  // namespace troupe::test

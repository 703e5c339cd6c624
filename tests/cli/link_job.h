#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/program.h"

namespace troupe::test {

/// A new company's key, NAME.key in the folder, and its node file, NAME.node.
inline void make_keys(const TempFolder& folder, const std::string& name) {
  const std::string company = folder.path(name + ".key");
  EXPECT_EQ(run({"keys", "new", "--out", company}).exit_code, 0);
  EXPECT_EQ(run({"keys", "worker", "--from", company, "--out",
                 folder.path(name + ".node")})
                .exit_code,
            0);
}

/// A loopback address that no other process of the tests has.
inline std::string own_tcp_endpoint() {
  const int pid = ::getpid();
  return "tcp://127." + std::to_string(1 + (pid >> 16)) + "." +
         std::to_string((pid >> 8) & 255) + "." + std::to_string(pid & 255) +
         ":17010";
}

/// A job whose company is processes of the built program: a coordinator that
/// computes nothing, and workers. The processes are killed with the object.
class LinkJob {
 public:
  using Arguments = std::vector<std::string>;

  /// Of a tiny network with random weights, or of a model folder. `endpoint`:
  /// where it listens; empty: at a socket in its folder.
  explicit LinkJob(Arguments job, const std::string& model = {},
                   const std::string& endpoint = {},
                   Program::Environment environment = {})
      : endpoint_(endpoint.empty() ? "ipc://" + folder_.path("link/a")
                                   : endpoint),
        environment_(std::move(environment)),
        job_(model.empty() ? Arguments{"sample", "--random-weights", "dit-tiny",
                                       "--steps", "8", "--threads", "1"}
                           : Arguments{"sample", "-m", model, "--steps", "4",
                                       "--threads", "1"}) {
    job_ = overridden(std::move(job_), job);
    listen_again();
  }
  LinkJob(const LinkJob&) = delete;
  LinkJob& operator=(const LinkJob&) = delete;

  /// Another job like it at the same place.
  void listen_again() {
    head_ = std::make_unique<Program>(
        overridden(job_, {"--workers", "0", "--listen", endpoint_, "--json",
                          "-o", out_, "--exists", "replace"}),
        environment_);
  }

  /// The worker's temporary files lie in the job's folder, because the worker
  /// may be killed.
  void add_worker(const Arguments& more = {},
                  Program::Environment environment = {}) {
    Arguments arguments = {"worker", "--join",    endpoint_, "--workers",
                           "1",      "--threads", "1"};
    if (std::ranges::find(more, "--wait") == more.end()) {
      arguments.insert(arguments.end(), {"--wait", "20"});
    }
    arguments = overridden(std::move(arguments), more);
    environment.push_back("TMPDIR=" + folder_.path());
    workers_.push_back(std::make_unique<Program>(arguments, environment));
  }
  [[nodiscard]] Program& worker(std::size_t index) { return *workers_[index]; }
  [[nodiscard]] std::size_t num_workers() const { return workers_.size(); }
  [[nodiscard]] Program& head() { return *head_; }
  [[nodiscard]] const TempFolder& folder() const { return folder_; }
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }

  /// Until so many images are there.
  void await_images(std::size_t count) const {
    head_->await([&] {
      std::error_code error;
      std::size_t images = 0;
      for (const auto& entry :
           std::filesystem::directory_iterator(out_, error)) {
        const std::string name = entry.path().filename();
        images += name.ends_with(".png") && !name.starts_with(".") ? 1U : 0U;
      }
      return images >= count;
    });
  }

  [[nodiscard]] Outcome outcome() { return head_->wait(); }
  /// The job's summary. Expects that it succeeded.
  [[nodiscard]] nlohmann::json finish() {
    const Outcome outcome = this->outcome();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json();
  }

  /// The summary of the job when a single worker computes it: computed once for
  /// all jobs of these arguments.
  [[nodiscard]] nlohmann::json alone() const {
    static std::map<Arguments, nlohmann::json> known;
    Arguments arguments;
    for (std::size_t i = 0; i < job_.size(); ++i) {
      if (job_[i] == "--secret-file" || job_[i] == "--metrics" ||
          job_[i] == "--trace") {
        ++i;
      } else {
        arguments.push_back(job_[i]);
      }
    }
    nlohmann::json& summary = known[arguments];
    if (summary.is_null()) {
      const TempFolder folder;
      const Outcome outcome = run(overridden(
          arguments, {"--workers", "1", "--json", "-o", folder.path("out")}));
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      summary = outcome.json();
    }
    return summary;
  }

 private:
  TempFolder folder_;
  std::string endpoint_;
  std::string out_ = folder_.path("out");
  Program::Environment environment_;  ///< of who directs
  Arguments job_;
  std::unique_ptr<Program> head_;
  std::vector<std::unique_ptr<Program>> workers_;
};

/// The arguments of a job that takes a second or two.
inline const std::vector<std::string> kSomeImages = {
    "--method", "batch", "-n", "60", "--steps", "50"};

/// What troupe ls says of a job.
inline nlohmann::json look(const LinkJob& job,
                           const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"ls", job.endpoint(), "--json"};
  arguments = overridden(std::move(arguments), more);
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.json();
}

}  // namespace troupe::test

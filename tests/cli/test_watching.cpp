// Watching and stopping a running job: troupe ls, troupe cancel and --metrics.

#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "tests/cli/link_job.h"
#include "tests/cli/scrape.h"

namespace troupe::test {
namespace {

using Arguments = std::vector<std::string>;

/// One that nobody waits for.
const Arguments kManyImages = {"--method", "batch",   "-n",
                               "4000",     "--steps", "50"};

std::string own_user() {
  const passwd* const entry = ::getpwuid(::geteuid());
  return entry != nullptr ? entry->pw_name : std::to_string(::geteuid());
}

std::string own_host() {
  std::array<char, 256> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  return host.data();
}

void expect_one_line(const Arguments& arguments, int code,
                     const std::string& says) {
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.exit_code, code) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
}

const nlohmann::json* image_of(const nlohmann::json& summary,
                               std::uint64_t index) {
  for (const nlohmann::json& image : summary["images"]) {
    if (image["index"] == index) {
      return &image;
    }
  }
  return nullptr;
}

TEST(Ls, ShowsTheJobAndWhoComputes) {
  LinkJob job(kSomeImages);
  job.add_worker();
  job.await_images(1);  // now it listens
  nlohmann::json now;
  job.head().await([&] {  // reports come 20 times a second
    now = look(job);
    return now["images_done"] >= 2;
  });
  EXPECT_EQ(now["model"], "dit-tiny");
  EXPECT_EQ(now["method"], "batch");
  EXPECT_EQ(now["images_total"], 60);
  EXPECT_EQ(now["calls_total"], 60 * 50);
  ASSERT_EQ(now["nodes"].size(), 2U);
  EXPECT_EQ(now["nodes"][0]["workers"], 0);
  EXPECT_EQ(now["nodes"][1]["workers"], 1);
  EXPECT_EQ(now["nodes"][1]["status"], "here");
  EXPECT_GE(now["nodes"][1]["rows"], 2 * 50);
  EXPECT_GT(now["nodes"][1]["busy_share"], 0);
  EXPECT_EQ(now["nodes"][0]["rows_per_second"], 0);
  EXPECT_GT(now["nodes"][1]["rows_per_second"], 0);
  const Outcome shown = run({"ls", job.endpoint()});
  EXPECT_NE(shown.out.find("dit-tiny, batch: "), std::string::npos)
      << shown.out;
  EXPECT_NE(shown.out.find(" of 60 images done"), std::string::npos)
      << shown.out;
  EXPECT_EQ(std::ranges::count(shown.out, '\n'), 4) << shown.out;
  EXPECT_NE(shown.out.find("  rows/s  "), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("  threads    memory  "), std::string::npos)
      << shown.out;
  EXPECT_GE(now["nodes"][1]["threads"], 1);
  EXPECT_GT(now["nodes"][1]["memory_bytes"], 0);
  const nlohmann::json result = job.finish();
  EXPECT_EQ(result["latents_xxh3"], job.alone()["latents_xxh3"]);
  EXPECT_EQ(result["nodes"].size(), 2U) << "who looks is no node";
  EXPECT_LE(now["nodes"][1]["rows"], result["nodes"][1]["rows"]);
}

TEST(Ls, FollowsTheJobUntilItIsOver) {
  LinkJob job(kSomeImages);
  job.add_worker();
  job.await_images(1);
  Program follower({"ls", job.endpoint(), "--follow", "--json"});
  follower.await([&] { return follower.unread() > 0; });
  (void)job.finish();
  const Outcome outcome = follower.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "troupe: the job is over\n");
  std::istringstream lines(outcome.out);
  std::uint64_t done = 0;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json now = nlohmann::json::parse(line);
    EXPECT_GE(now["images_done"], done);
    done = now["images_done"];
  }
  EXPECT_GE(done, 1U);
}

TEST(Ls, SaysThatNobodyListens) {
  const TempFolder folder;
  const std::string nobody = "ipc://" + folder.path("link/none");
  const std::string closed = "tcp://127.0.0.1:" + std::to_string(free_port());
  expect_one_line({"ls", nobody}, 4, nobody);
  expect_one_line({"cancel", closed}, 4,
                  "[" + closed +
                      "] no job was found there within 3 s: it takes no "
                      "connection, as nobody listens there\n");
  for (const char* const verb : {"ls", "cancel"}) {
    expect_one_line({verb}, 2, "missing: where the job listens");
    expect_one_line({verb, nobody, closed}, 2, closed);
    const std::string place = std::string("[") + verb + "] ";
    expect_one_line({verb, "10.0.0.1:7010"}, 2,
                    place + "the endpoint '10.0.0.1:7010'");
    expect_one_line({verb, "tcp://10.0.0.1:7010"}, 2,
                    place + "other machines have this address");
  }
}

TEST(Ls, SaysThatAFrozenJobDoesNotAnswer) {
  LinkJob job(kManyImages);
  job.add_worker();
  job.await_images(1);
  job.head().signal(SIGSTOP);
  expect_one_line({"ls", job.endpoint()}, 4,
                  "[" + job.endpoint() +
                      "] no job was found there within 3 s: it takes the "
                      "connection and says nothing");
  job.head().signal(SIGKILL);
  job.head().signal(SIGCONT);
}

TEST(Cancel, EndsTheJobAndSaysWhoDidIt) {
  LinkJob job(kManyImages);
  job.add_worker();
  job.await_images(2);
  const Outcome outcome = run({"cancel", job.endpoint()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("the job is cancelled"), std::string::npos)
      << outcome.out;
  const Outcome cancelled = job.head().wait();
  EXPECT_EQ(cancelled.exit_code, 9) << cancelled.err;
  const nlohmann::json result = cancelled.json();
  EXPECT_EQ(result["status"], "cancelled");
  EXPECT_EQ(result["exit_code"], 9);
  EXPECT_EQ(result["error"]["code"], "cancelled");
  EXPECT_EQ(result["error"]["retryable"], false);
  const std::string by = result["cancelled_by"];
  EXPECT_TRUE(by.starts_with(own_user() + " at " + own_host() + ":")) << by;
  EXPECT_NE(cancelled.err.find("cancelled by " + by + " after "),
            std::string::npos)
      << cancelled.err;
  EXPECT_GE(result["images"].size(), 2U) << "finished images stay";
  EXPECT_EQ(job.worker(0).wait().exit_code, 0);
}

/// From another host the address says more than the names.
TEST(Cancel, SaysWhereItCameFrom) {
  LinkJob job(kManyImages, {}, own_tcp_endpoint());
  job.add_worker();
  job.await_images(1);
  EXPECT_EQ(run({"cancel", job.endpoint()}).exit_code, 0);
  const std::string by = job.head().wait().json()["cancelled_by"];
  EXPECT_NE(by.find(", from 127."), std::string::npos) << by;
}

TEST(Cancel, TakesOneImageOutOfTheJob) {
  LinkJob job(kSomeImages);
  job.add_worker();
  job.await_images(1);
  for (int twice = 0; twice < 2; ++twice) {
    const Outcome outcome =
        run({"cancel", job.endpoint(), "--sample", "59", "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.json()["message"], "image 59 was cancelled");
  }
  expect_one_line({"cancel", job.endpoint(), "--sample", "60"}, 2,
                  "[--sample] the job makes no such image");
  EXPECT_EQ(look(job)["images_cancelled"], 1);
  const Outcome ended = job.head().wait();
  EXPECT_EQ(ended.exit_code, 7) << ended.err;
  const nlohmann::json result = ended.json();
  EXPECT_EQ(result["status"], "cancelled");
  const nlohmann::json alone = job.alone();
  ASSERT_EQ(result["images"].size(), 60U);
  for (std::uint64_t i = 0; i < 60; ++i) {
    const nlohmann::json& image = *image_of(result, i);
    EXPECT_EQ(image["status"], i == 59 ? "cancelled" : "done");
    if (i != 59) {
      EXPECT_EQ(image["latents_xxh3"], (*image_of(alone, i))["latents_xxh3"]);
    }
  }
}

TEST(Cancel, NeedsTheCompanysOwnKey) {
  const TempFolder keys;
  make_keys(keys, "ours");
  make_keys(keys, "theirs");
  Arguments with_key = kManyImages;
  with_key.insert(with_key.end(), {"--secret-file", keys.path("ours.key")});
  LinkJob job(with_key);
  job.add_worker({"--secret-file", keys.path("ours.node")});
  job.await_images(1);
  EXPECT_EQ(
      look(job, {"--secret-file", keys.path("ours.node")})["images_total"],
      4000);
  EXPECT_EQ(look(job, {"--secret-file", keys.path("ours.key")})["images_total"],
            4000);
  expect_one_line(
      {"cancel", job.endpoint(), "--secret-file", keys.path("ours.node")}, 2,
      "ours.node");
  for (const char* const verb : {"ls", "cancel"}) {
    expect_one_line(
        {verb, job.endpoint(), "--secret-file", keys.path("theirs.key")}, 4,
        "it ends the connection at once: it has another key");
    expect_one_line({verb, job.endpoint()}, 4,
                    "another key, or keys where this side has none");
  }
  EXPECT_EQ(
      look(job, {"--secret-file", keys.path("ours.node")})["images_failed"], 0);
  EXPECT_EQ(
      run({"cancel", job.endpoint(), "--secret-file", keys.path("ours.key")})
          .exit_code,
      0);
  EXPECT_EQ(job.head().wait().exit_code, 9);
}

TEST(Metrics, AreThoseOfTheRun) {
  const int port = free_port();
  Arguments arguments = kSomeImages;
  arguments.insert(arguments.end(), {"--metrics", std::to_string(port)});
  LinkJob job(arguments);
  job.add_worker();
  std::map<std::string, double> figures;
  job.head().await([&] {
    figures = figures_of(scrape(port));
    return figures["troupe_samples_done_total"] >= 2;
  });
  const nlohmann::json result = job.finish();
  const auto at = [&figures](const std::string& name) {
    const auto found = figures.find(name);
    EXPECT_NE(found, figures.end()) << name;
    return found == figures.end() ? -1 : found->second;
  };
  EXPECT_EQ(at("troupe_samples"), 60);
  EXPECT_EQ(at("troupe_workers{process=\"0\"}"), 0);
  EXPECT_EQ(at("troupe_workers{process=\"1\"}"), 1);
  EXPECT_GE(at("troupe_rows_total{process=\"1\"}"), 2 * 50);
  EXPECT_LE(at("troupe_rows_total{process=\"1\"}"),
            result["nodes"][1]["rows"].get<double>());
  EXPECT_LE(at("troupe_busy_seconds_total{process=\"1\"}"),
            result["compute_seconds"].get<double>());
  EXPECT_LE(at("troupe_bytes_total{direction=\"received\",process=\"0\"}"),
            result["bytes_received"].get<double>());
  EXPECT_EQ(at("troupe_recoveries_total"), 0);
  EXPECT_TRUE(scrape(port).empty()) << "the process has ended";
  EXPECT_EQ(result["latents_xxh3"], job.alone()["latents_xxh3"]);
}

TEST(Metrics, NeedAPortThatIsFree) {
  const TempFolder folder;
  const SilentPort taken;
  expect_one_line(tiny_sample({"--class", "1", "-o", folder.path("a.png"),
                               "--metrics", taken.number()}),
                  2,
                  "[--metrics] cannot listen at 127.0.0.1:" + taken.number());
  for (const Arguments& takes : {Arguments{"--metrics", taken.number()},
                                 Arguments{"--listen", taken.endpoint()}}) {
    Arguments arguments =
        tiny_sample({"--class", "1", "-o", folder.path("a.png"), "--json"});
    arguments.insert(arguments.end(), takes.begin(), takes.end());
    EXPECT_EQ(run(arguments).json()["error"]["code"], "io") << takes[0];
  }
  expect_one_line(tiny_sample({"--class", "1", "-o", folder.path("a.png"),
                               "--metrics", "everywhere"}),
                  2, "[--metrics] no address");
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace troupe::test

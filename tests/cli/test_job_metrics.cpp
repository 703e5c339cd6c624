// The figures of a job as Prometheus reads them.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "actors/cli/job_metrics.h"
#include "kernels/core/error.h"
#include "tests/cli/scrape.h"

namespace troupe::actors {
namespace {

JobStatus half_done() {
  JobStatus status{.progress = {.samples_total = 8,
                                .samples_done = 3,
                                .samples_failed = 1,
                                .samples_cancelled = 2,
                                .calls_done = 5,
                                .calls_total = 10,
                                .recoveries = 4},
                   .elapsed_seconds = 10};
  status.progress.processes = {{.name = "a:1",
                                .means = {.memory_bytes = 4096},
                                .work = {.workers = 2, .threads = 8}},
                               {.name = "b\"\n:2",
                                .process = 1,
                                .work = {.workers = 1,
                                         .tasks = 70,
                                         .rows = 60,
                                         .busy_seconds = 7.5,
                                         .losses = 5},
                                .bytes_sent = 1000,
                                .bytes_received = 2000,
                                .status = "left"}};
  return status;
}

int port_of(const JobMetrics& metrics) {
  const std::string& address = metrics.address();
  return std::stoi(address.substr(address.rfind(':') + 1));
}

TEST(JobMetrics, AreThoseOfTheJob) {
  JobMetrics metrics("0", "--metrics");
  metrics.show(half_done);
  const std::string text = test::scrape(port_of(metrics));
  EXPECT_TRUE(text.starts_with("HTTP/1.1 200")) << text;
  auto figures = test::figures_of(text);
  const std::map<std::string, double> expected = {
      {"troupe_samples", 8},
      {"troupe_samples_done_total", 3},
      {"troupe_samples_failed_total", 1},
      {"troupe_samples_cancelled_total", 2},
      {"troupe_recoveries_total", 4},
      {"troupe_job_progress_ratio", 0.5},
      {"troupe_job_elapsed_seconds", 10},
      {"troupe_job_eta_seconds", 10},
      {"troupe_workers{process=\"0\"}", 2},
      {"troupe_workers{process=\"1\"}", 1},
      {"troupe_threads{process=\"0\"}", 8},
      {"troupe_threads{process=\"1\"}", 0},
      {"troupe_memory_bytes{process=\"0\"}", 4096},
      {"troupe_memory_bytes{process=\"1\"}", 0},
      {"troupe_tasks_total{process=\"0\"}", 0},
      {"troupe_tasks_total{process=\"1\"}", 70},
      {"troupe_rows_total{process=\"0\"}", 0},
      {"troupe_rows_total{process=\"1\"}", 60},
      {"troupe_busy_seconds_total{process=\"0\"}", 0},
      {"troupe_busy_seconds_total{process=\"1\"}", 7.5},
      {"troupe_losses_total{process=\"0\"}", 0},
      {"troupe_losses_total{process=\"1\"}", 5},
      {"troupe_bytes_total{direction=\"sent\",process=\"0\"}", 0},
      {"troupe_bytes_total{direction=\"received\",process=\"0\"}", 0},
      {"troupe_bytes_total{direction=\"sent\",process=\"1\"}", 1000},
      {"troupe_bytes_total{direction=\"received\",process=\"1\"}", 2000},
      {"troupe_process_up{name=\"a:1\",process=\"0\"}", 1},
      {"troupe_process_up{name=\"b\\\"\\n:2\",process=\"1\"}", 0}};
  for (const auto& [name, value] : expected) {
    EXPECT_TRUE(figures.contains(name)) << name << "\n" << text;
    EXPECT_EQ(figures[name], value) << name;
  }
  EXPECT_EQ(figures.size(), expected.size() + 1) << "troupe_build_info";
}

/// Connections to a port that send the beginning of a request. Closed with the
/// object.
class HalfOpen {
 public:
  HalfOpen(int port, int count) : sockets_(static_cast<std::size_t>(count)) {
    const sockaddr_in address = test::loopback(port);
    const std::string begin = "GET /metrics HTTP/1.1\r\nHost:";
    for (int& socket : sockets_) {
      socket = ::socket(AF_INET, SOCK_STREAM, 0);
      EXPECT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&address),
                          sizeof(address)),
                0);
      EXPECT_GT(::send(socket, begin.data(), begin.size(), MSG_NOSIGNAL), 0);
    }
  }
  ~HalfOpen() {
    for (const int socket : sockets_) {
      ::close(socket);
    }
  }
  HalfOpen(const HalfOpen&) = delete;
  HalfOpen& operator=(const HalfOpen&) = delete;

  /// Until the other side closes the first of them.
  void await_close() const {
    std::array<char, 4096> piece{};
    while (::recv(sockets_.front(), piece.data(), piece.size(), 0) > 0) {
    }
  }

 private:
  std::vector<int> sockets_;
};

TEST(JobMetrics, AreServedBesideUnfinishedRequestsWhichEnd) {
  JobMetrics metrics("0", "--metrics");
  metrics.show(half_done);
  const HalfOpen few(port_of(metrics), 3);
  EXPECT_FALSE(test::figures_of(test::scrape(port_of(metrics))).empty());
  few.await_close();
  const HalfOpen many(port_of(metrics), 40);
  EXPECT_FALSE(test::figures_of(test::scrape(port_of(metrics))).empty());
}

TEST(JobMetrics, SayOfEachFigureWhatItIs) {
  JobMetrics metrics("0", "--metrics");
  metrics.show(half_done);
  const std::string text = test::scrape(port_of(metrics));
  for (const auto& [figure, value] : test::figures_of(text)) {
    const std::string name = figure.substr(0, figure.find('{'));
    const bool counts = name.ends_with("_total");
    EXPECT_NE(text.find("# HELP " + name + " "), std::string::npos) << name;
    EXPECT_NE(text.find("# TYPE " + name + (counts ? " counter" : " gauge")),
              std::string::npos)
        << name;
  }
}

TEST(JobMetrics, AreOfNothingBeforeTheJobAndWhereNothingIsKnown) {
  JobMetrics metrics("127.0.0.1:0", "--metrics");
  const std::string before = test::scrape(port_of(metrics));
  EXPECT_TRUE(before.starts_with("HTTP/1.1 200")) << before;
  EXPECT_TRUE(test::figures_of(before).empty());
  metrics.show([] { return JobStatus{}; });
  const auto figures = test::figures_of(test::scrape(port_of(metrics)));
  EXPECT_FALSE(figures.contains("troupe_job_eta_seconds"));
  EXPECT_TRUE(figures.contains("troupe_samples"));
}

TEST(JobMetrics, NeedAnAddressThatIsFree) {
  const JobMetrics first("127.0.0.1:0", "--metrics");
  EXPECT_TRUE(first.address().starts_with("127.0.0.1:")) << first.address();
  for (const std::string& address :
       {first.address(), std::string("203.0.113.9:9464")}) {
    try {
      const JobMetrics second(address, "--metrics");
      ADD_FAILURE() << "listens at " << address;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::io);
      EXPECT_NE(error.message().find(address), std::string::npos)
          << error.what();
    }
  }
}

TEST(JobMetrics, RefuseWhatIsNoAddress) {
  for (const char* const address :
       {"", "x", "1.2.3.4", "127.0.0.1:", "127.0.0.1:70000", "9464,9465",
        "127.0.0.1:9464s", "host:9464", "127.0.0.1:9464 ", "+9464"}) {
    EXPECT_THROW(JobMetrics(address, "--metrics"), Error) << address;
  }
}

TEST(JobMetrics, AreNotServedByADryRunWhichChecksTheirAddress) {
  config::Config config;
  config.dry_run = true;
  EXPECT_EQ(make_metrics(config), nullptr);
  config.metrics = "127.0.0.1:0";
  EXPECT_EQ(make_metrics(config), nullptr);
  config.metrics = "inf";
  EXPECT_THROW((void)make_metrics(config), Error);
}

}  // namespace
}  // namespace troupe::actors

#include "actors/cli/job_metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <utility>
#include <vector>

#include "actors/artefacts/summary.h"
#include "actors/cli/versions.h"
#include "config/parse_value.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

void add(MetricFamily& family, double value, Labels labels) {
  ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  if (family.type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
}

/// A figure of the job, or of each process.
template <typename Of>
struct Figure {
  const char* name;
  const char* help;
  MetricType type;
  double (*value)(const Of&);
};

template <auto field>
double of_job(const JobStatus& status) {
  return static_cast<double>(status.progress.*field);
}

constexpr Figure<JobStatus> kJobRows[] = {
    {"troupe_samples", "Images that the job makes, without cancelled ones.",
     MetricType::Gauge, of_job<&JobProgress::samples_total>},
    {"troupe_samples_done_total", "Images that are done.", MetricType::Counter,
     of_job<&JobProgress::samples_done>},
    {"troupe_samples_failed_total", "Images that failed.", MetricType::Counter,
     of_job<&JobProgress::samples_failed>},
    {"troupe_samples_cancelled_total", "Images that were cancelled.",
     MetricType::Counter, of_job<&JobProgress::samples_cancelled>},
    {"troupe_recoveries_total", "Losses that the job survived.",
     MetricType::Counter, of_job<&JobProgress::recoveries>},
    {"troupe_job_progress_ratio", "Part of all network calls that is done.",
     MetricType::Gauge, [](const JobStatus& s) { return s.view().fraction; }},
    {"troupe_job_elapsed_seconds", "Time since the job began.",
     MetricType::Gauge, [](const JobStatus& s) { return s.elapsed_seconds; }},
};

template <auto field>
double of_work(const Process& process) {
  return static_cast<double>(process.work.*field);
}

constexpr Figure<Process> kProcessRows[] = {
    {"troupe_workers", "Workers that the process brought.", MetricType::Gauge,
     of_work<&ProcessWork::workers>},
    {"troupe_threads", "Threads of the host that they compute on.",
     MetricType::Gauge, of_work<&ProcessWork::threads>},
    {"troupe_memory_bytes",
     "Memory of the host that the process may use; 0: it has not joined.",
     MetricType::Gauge,
     [](const Process& n) {
       return static_cast<double>(n.means.memory_bytes);
     }},
    {"troupe_tasks_total", "Tasks whose results counted.", MetricType::Counter,
     of_work<&ProcessWork::tasks>},
    {"troupe_rows_total",
     "Rows that passed the network, each segment of a pipeline as one.",
     MetricType::Counter, of_work<&ProcessWork::rows>},
    {"troupe_busy_seconds_total", "Busy time, summed over workers.",
     MetricType::Counter, of_work<&ProcessWork::busy_seconds>},
    {"troupe_losses_total", "Losses of workers.", MetricType::Counter,
     of_work<&ProcessWork::losses>},
};

std::vector<MetricFamily> families_of(const JobStatus& status) {
  std::vector<MetricFamily> all;
  for (const Figure<JobStatus>& row : kJobRows) {
    MetricFamily& family =
        all.emplace_back(MetricFamily{row.name, row.help, row.type, {}});
    add(family, row.value(status), {});
  }
  if (const double left = status.view().seconds_left; left >= 0) {
    add(all.emplace_back(MetricFamily{
            "troupe_job_eta_seconds",
            "Time until the job ends, at its speed so far; absent until known "
            "and while no worker is there.",
            MetricType::Gauge,
            {}}),
        left, {});
  }
  for (const Figure<Process>& row : kProcessRows) {
    MetricFamily& family =
        all.emplace_back(MetricFamily{row.name, row.help, row.type, {}});
    for (const Process& node : status.progress.processes) {
      add(family, row.value(node), {{"process", std::to_string(node.process)}});
    }
  }
  MetricFamily bytes{"troupe_bytes_total",
                     "Bytes of tensors over the links of the process.",
                     MetricType::Counter,
                     {}};
  MetricFamily up{"troupe_process_up",
                  "Whether the process is in the job, or has left it.",
                  MetricType::Gauge,
                  {}};
  for (const Process& node : status.progress.processes) {
    const ClientMetric::Label process{"process", std::to_string(node.process)};
    add(bytes, static_cast<double>(node.bytes_sent),
        {{"direction", "sent"}, process});
    add(bytes, static_cast<double>(node.bytes_received),
        {{"direction", "received"}, process});
    add(up, node.has_left() ? 0 : 1, {{"name", node.name}, process});
  }
  all.push_back(std::move(bytes));
  all.push_back(std::move(up));
  add(all.emplace_back(MetricFamily{
          "troupe_build_info", "The program.", MetricType::Gauge, {}}),
      1, {{"version", version()}});
  return all;
}

class Source final : public prometheus::Collectable {
 public:
  void show(std::function<JobStatus()> source) {
    const std::lock_guard lock(mutex_);
    source_ = std::move(source);
  }

 private:
  std::vector<MetricFamily> Collect() const override {
    const std::lock_guard lock(mutex_);
    return source_ ? families_of(source_()) : std::vector<MetricFamily>();
  }

  mutable std::mutex mutex_;
  std::function<JobStatus()> source_;
};

/// "127.0.0.1:" before a port alone; everything but an IP address and a port
/// is refused: the server reads lists and options of its own from the text.
std::string host_and_port(const std::string& address,
                          const std::string& place) {
  const std::size_t colon = address.rfind(':');
  std::string host = colon == std::string::npos ? "" : address.substr(0, colon);
  const std::string port =
      colon == std::string::npos ? address : address.substr(colon + 1);
  constexpr int kLastPort = 65535;
  const bool is_port =
      !port.empty() && port.size() <= 5 &&
      std::ranges::all_of(
          port, [](unsigned char c) { return std::isdigit(c) != 0; }) &&
      std::stoi(port) <= kLastPort;
  if (host.empty() || host == "localhost") {
    host = "127.0.0.1";
  }
  const bool is_host = std::ranges::all_of(host, [](unsigned char c) {
    return std::isxdigit(c) != 0 || c == '.' || c == ':' || c == '[' ||
           c == ']';
  });
  require(
      is_port && is_host, Errc::invalid_argument, place,
      "no address to listen at: got " + in_quotes(address) +
          ", expected PORT or HOST:PORT with an IP address as host",
      "9464 serves this machine only, 0.0.0.0:9464 all machines that reach it");
  return host + ":" + port;
}

}  // namespace

struct JobMetrics::Server {
  std::shared_ptr<Source> source = std::make_shared<Source>();
  std::unique_ptr<prometheus::Exposer> exposer;
  std::string address;
};

JobMetrics::JobMetrics(const std::string& address, const std::string& place)
    : server_(std::make_unique<Server>()) {
  const std::string at = host_and_port(address, place);
  try {
    // A connection holds a thread until its request is whole, or the time for
    // one is over.
    server_->exposer = std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", at, "num_threads", "16",
                                 "request_timeout_ms", "1000"});
  } catch (const std::exception&) {
    throw Error(Errc::io, place,
                "cannot listen at " + at +
                    ": the port is taken, or the "
                    "address is not this machine's",
                "give another port, or 0 for any");
  }
  const std::vector<int> ports = server_->exposer->GetListeningPorts();
  require(!ports.empty(), Errc::invalid_argument, place,
          "cannot listen at " + at);
  server_->address =
      at.substr(0, at.rfind(':') + 1) + std::to_string(ports.front());
  server_->exposer->RegisterCollectable(server_->source);
}

JobMetrics::~JobMetrics() = default;

const std::string& JobMetrics::address() const noexcept {
  return server_->address;
}

void JobMetrics::show(std::function<JobStatus()> source) {
  server_->source->show(std::move(source));
}

ShownJob::ShownJob(JobMetrics* metrics, std::function<JobStatus()> source)
    : metrics_(metrics), source_(std::move(source)) {
  if (metrics_ != nullptr) {
    metrics_->show(source_);
  }
}

ShownJob::~ShownJob() {
  if (metrics_ == nullptr) {
    return;
  }
  try {
    metrics_->show([last = source_()] { return last; });
  } catch (...) {
    metrics_->show({});  // no memory for them
  }
}

std::unique_ptr<JobMetrics> make_metrics(const config::Config& config) {
  if (config.metrics.empty()) {
    return nullptr;
  }
  const std::string place = config.place_of("metrics");
  (void)host_and_port(config.metrics, place);
  if (config.dry_run) {
    return nullptr;
  }
  auto metrics = std::make_unique<JobMetrics>(config.metrics, place);
  if (!config.quiet) {
    say(stderr, "troupe: metrics at http://" + metrics->address() + "/metrics");
  }
  return metrics;
}

}  // namespace troupe::actors

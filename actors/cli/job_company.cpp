#include "actors/cli/job_company.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "actors/cli/link_options.h"
#include "actors/cli/required_class.h"
#include "actors/cli/versions.h"
#include "kernels/core/log.h"
#include "models/files/checkpoint_files.h"

namespace troupe::actors {
namespace {

/// None for random weights: everybody makes the same ones.
std::shared_ptr<ModelGiver> model_giver(const JobRequest& request) {
  const auto& checkpoint = request.source.checkpoint();
  return checkpoint ? std::make_shared<ModelGiver>(
                          checkpoint->folder, models::files_of(*checkpoint))
                    : nullptr;
}

}  // namespace

JobCompany::JobCompany(const config::Config& config, const JobRequest& request,
                       const JobRunner& runner, const JobSpec& spec,
                       std::function<void(const std::string& by)> cancel)
    : request_(request),
      runner_(runner),
      spec_(spec),
      speeds_(config, request, request.job.method, runner),
      watch_({.samples_total = request.num_samples() - spec.skip.size(),
              .waits_for_workers = request.only_directs},
             SteadyClock().now()) {
  if (!config.listen.empty() || !config.metrics.empty()) {
    spec_.observers.push_back(&watch_);
  }
  if (config.listen.empty()) {
    return;
  }
  spec_.waits_for_processes = request.only_directs;
  Offer offer = runner.offer();
  offer.trace = spec.trace;
  clients_ = std::make_unique<ClientService>(
      ClientServiceSpec{.version = version(),
                        .status = [this] { return status(); },
                        .cancel = std::move(cancel),
                        .begin = request.job.begin,
                        .end = request.job.end,
                        .skip = spec.skip});
  spec_.observers.push_back(clients_.get());
  listener_ = std::make_unique<CompanyListener>(ListenerSpec{
      .version = version(),
      .hub = hub_options(config, kCoordinatorRole),
      .endpoints = {config.listen},
      .place = config.place_of("listen"),
      .offer = std::move(offer),
      .classes = &runner.classes(),
      .required_class = RequiredClass::of(config).name,
      .row_seconds =
          [this](const ClassRecord& of, const std::string& device,
                 int threads) { return speed_of_member(of, device, threads); },
      .values = runner.values(),
      .only_directs = request.only_directs,
      .model = model_giver(request),
      .clients = clients_.get()});
  listening_ = listener_.get();
  if (!config.quiet) {
    say(stderr, fmt::format("troupe: listening at {}",
                            fmt::join(listener_->endpoints(), " and ")));
  }
}

double JobCompany::speed_of_member(const ClassRecord& of,
                                   const std::string& device,
                                   int threads) const {
  const double seconds = speeds_.row_seconds(of.name, device, threads);
  if (seconds > 0) {
    log_message(LogLevel::info,
                fmt::format("speeds: a worker that joins begins with that of "
                            "earlier jobs, {:.3g} s a row",
                            seconds));
  }
  return seconds;
}

JobResult JobCompany::run() {
  JobSpec job = runner_.job_of(spec_);
  speeds_.begin(job);
  if (!listener_) {
    JobResult result = run_job(job);
    speeds_.keep(result);
    return result;
  }
  // Samples may wait for a worker of their class, whoever else has gone.
  job.waits_for_processes = job.waits_for_processes ||
                            job.on_class_change == config::ClassChange::wait;
  JobResult result = run_company(job, listener_->detours());
  listener_->end(result.failure);
  speeds_.keep(result);
  return result;
}

std::vector<Process> JobCompany::nodes(std::span<const Process> at_work) const {
  std::vector<Process> nodes = {{.name = process_name()}};
  if (!request_.only_directs) {
    nodes.front().execution_classes = runner_.execution_classes();
  }
  if (const CompanyListener* const listener = listening_) {
    nodes.front().bytes_sent = listener->bytes_given();
    nodes.front().bytes_received = listener->bytes_fetched();
    std::ranges::move(listener->processes(), std::back_inserter(nodes));
  }
  for (const Process& of : at_work) {
    const auto node = std::ranges::find(nodes, of.process, &Process::process);
    if (node != nodes.end()) {
      node->work = of.work;
      node->means = of.means;
    }
  }
  return nodes;
}

JobStatus JobCompany::status() const {
  JobStatus status{.model = request_.source.name(),
                   .method = to_string(request_.job.method.kind),
                   .progress = watch_.progress(),
                   .elapsed_seconds = watch_.elapsed_seconds()};
  status.progress.processes = nodes(status.progress.processes);
  return status;
}

void JobCompany::describe(const JobResult& result, RunSummary& summary) const {
  summary.nodes = nodes(result.processes);
  for (Process& node : summary.nodes) {
    if (!node.has_left()) {
      node.status = "done";
    }
  }
  if (summary.nodes.size() > 1) {
    summary.workers = 0;
    for (const Process& node : summary.nodes) {
      summary.workers += node.work.workers;
    }
  }
  summary.bytes_sent = summary.nodes.front().bytes_sent;
  summary.bytes_received = summary.nodes.front().bytes_received;
}

std::vector<TraceProcess> JobCompany::traced() const {
  std::vector<TraceProcess> processes = {{.name = process_name()}};
  if (listener_) {
    for (const Process& process : listener_->processes()) {
      processes.push_back({process.process, process.name, process.clock_error});
    }
  }
  return processes;
}

}  // namespace troupe::actors

#include "actors/cli/job_company.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "actors/cli/link_options.h"
#include "actors/cli/required_class.h"
#include "actors/cli/versions.h"

namespace troupe::actors {

JobCompany::JobCompany(const config::Config& config, const JobRequest& request,
                       const JobRunner& runner, const JobSpec& spec)
    : runner_(runner), spec_(spec) {
  if (config.listen.empty()) {
    return;
  }
  spec_.waits_for_processes = request.only_directs;
  Offer offer = runner.offer();
  offer.previews = spec.preview_every > 0;
  offer.trajectory = spec.trajectory;
  listener_ = std::make_unique<CompanyListener>(
      ListenerSpec{.version = version(),
                   .hub = hub_options(config, kCoordinatorRole),
                   .endpoints = {config.listen},
                   .offer = std::move(offer),
                   .classes = &runner.classes(),
                   .required_class = RequiredClass::of(config).name,
                   .init_latents = request.init_latents});
  if (!config.quiet) {
    say(stderr, fmt::format("troupe: listening at {}",
                            fmt::join(listener_->endpoints(), " and ")));
  }
}

JobResult JobCompany::run() {
  if (!listener_) {
    return runner_.run(spec_);
  }
  JobSpec job = runner_.job_of(spec_);
  // Samples may wait for a worker of their class, whoever else has gone.
  job.waits_for_processes = job.waits_for_processes ||
                            job.on_class_change == config::ClassChange::wait;
  JobResult result = run_company(job, listener_->detours());
  listener_->end(result.failure);
  return result;
}

std::vector<NodeStatus> JobCompany::nodes(
    std::span<const ProcessFigures> figures) const {
  std::vector<NodeStatus> nodes(1);
  nodes.front().name = process_name();
  if (listener_) {
    nodes.front().bytes_sent = listener_->bytes_given();
    nodes.front().bytes_received = listener_->bytes_fetched();
    for (const RemoteProcess& process : listener_->processes()) {
      nodes.push_back({.name = process.name,
                       .process = process.process,
                       .workers = process.num_workers,
                       .bytes_sent = process.bytes_sent,
                       .bytes_received = process.bytes_received,
                       .status = process.gone ? "left" : "done",
                       .cause = process.gone.value_or("")});
    }
  }
  for (const ProcessFigures& of : figures) {
    const auto node =
        std::ranges::find(nodes, of.process, &NodeStatus::process);
    if (node != nodes.end()) {
      node->workers = of.workers;
      node->tasks = of.tasks;
      node->rows = of.rows;
      node->busy_seconds = std::chrono::duration<double>(of.busy).count();
      node->busy_share = of.busy_share();
      node->losses = of.losses;
    }
  }
  return nodes;
}

void JobCompany::describe(const JobResult& result, RunSummary& summary) const {
  summary.nodes = nodes(result.processes);
  summary.bytes_sent = summary.nodes.front().bytes_sent;
  summary.bytes_received = summary.nodes.front().bytes_received;
}

}  // namespace troupe::actors

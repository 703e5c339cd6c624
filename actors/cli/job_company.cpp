#include "actors/cli/job_company.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
  // 0 by name: this process directs, and computes nothing.
  spec_.waits_for_processes =
      config.num_workers == 0 && config.places.contains("workers");
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

void JobCompany::describe(RunSummary& summary) const {
  if (!listener_) {
    return;
  }
  summary.bytes_sent = listener_->bytes_given();
  summary.bytes_received = listener_->bytes_fetched();
  for (const RemoteProcess& process : listener_->processes()) {
    summary.nodes.push_back({.name = process.name,
                             .process = process.process,
                             .workers = process.num_workers,
                             .status = process.gone ? "left" : "done",
                             .cause = process.gone.value_or("")});
  }
}

}  // namespace troupe::actors

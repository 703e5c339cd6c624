#include "actors/runtime.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "actors/shells.h"
#include "actors/system_config.h"
#include "actors/worker_core.h"
#include "kernels/core/pool.h"
#include "net/inproc_channel.h"

namespace troupe::actors {
namespace {

std::vector<std::uint64_t> wanted(const JobSpec& spec) {
  require(spec.begin < spec.end, Errc::invalid_argument, "samples",
          "an empty range: got " + std::to_string(spec.begin) + ":" +
              std::to_string(spec.end),
          "give the first index and one past the last");
  const std::set<std::uint64_t> skip(spec.skip.begin(), spec.skip.end());
  std::vector<std::uint64_t> indices;
  for (std::uint64_t index = spec.begin; index < spec.end; ++index) {
    if (!skip.contains(index)) {
      indices.push_back(index);
    }
  }
  return indices;
}

/// The stores of a company's processes, and what connects them.
std::vector<std::shared_ptr<ValueStore>> make_stores(const JobContext& job,
                                                     int processes,
                                                     const Detours& detours) {
  if (processes == 1 && !detours.channel) {
    return {make_store(job)};
  }
  const auto inproc = std::make_shared<net::InprocValueChannel>();
  const std::shared_ptr<ValueChannel> channel =
      detours.channel ? detours.channel(inproc) : inproc;
  std::vector<std::shared_ptr<ValueStore>> stores;
  for (int process = 0; process < processes; ++process) {
    stores.push_back(make_store(job, channel));
    inproc->attach(process, answers_of(stores.back()));
  }
  return stores;
}

/// One NodeSpec per process, without the fields that the company fills in.
std::vector<NodeSpec> cut_into_nodes(const std::vector<WorkerTraits>& workers) {
  std::vector<NodeSpec> nodes(1);
  nodes.back().workers.clear();
  for (std::size_t w = 0; w < workers.size(); ++w) {
    const int next = nodes.back().process + 1;
    require(workers[w].process == next - 1 || workers[w].process == next,
            Errc::invalid_argument, "workers",
            "processes are numbered in order: got " +
                std::to_string(workers[w].process) + " after " +
                std::to_string(next - 1));
    if (workers[w].process == next) {
      nodes.push_back({.process = next,
                       .first_worker = static_cast<int>(w),
                       .workers = {}});
    }
    nodes.back().workers.push_back(workers[w]);
  }
  return nodes;
}

JobResult to_result(JobHistory record) {
  JobResult result;
  result.samples = std::move(record.ended);
  std::ranges::move(record.end.unfinished, std::back_inserter(result.samples));
  std::ranges::sort(result.samples, {}, &SampleReport::sample_index);
  result.stopped = record.end.stopped;
  result.failure = std::move(record.end.failure);
  result.nfe = record.end.progress.nfe;
  result.rounds = record.end.progress.rounds;
  result.reused = record.end.progress.reused;
  result.recoveries = record.end.recoveries;
  result.lost = std::move(record.end.lost);
  result.speeds = std::move(record.end.speeds);
  result.processes = std::move(record.end.progress.processes);
  result.compute_seconds =
      std::chrono::duration<double>(record.end.busy).count();
  return result;
}

}  // namespace

CoordinatorOptions coordinator_options(const JobSpec& spec) {
  CoordinatorOptions options;
  options.samples = wanted(spec);
  options.make_method =
      [parts = spec.parts,
       make = samplers::method_maker(spec.parts.method, *spec.parts.schedule)] {
        return make();
      };
  options.method = spec.parts.method;
  options.workers = spec.workers;
  for (const WorkerTraits& worker : spec.workers) {
    options.value_budgets[worker.process] = spec.value_budget;
  }
  options.waits_for_processes = spec.waits_for_processes;
  options.num_classes = spec.num_classes;
  options.on_class_change = spec.on_class_change;
  options.decode = spec.decode;
  options.preview_every = spec.preview_every;
  options.trajectory = spec.trajectory;
  options.outcome_bytes = spec.outcome_bytes;
  options.value_sizes = spec.value_sizes;
  options.segments = spec.segments;
  options.value_budgets[kHomeProcess] = spec.value_budget;
  options.means = spec.means;
  options.lease = spec.lease;
  options.max_losses = spec.max_losses;
  options.keep_going = spec.keep_going;
  options.cuts = spec.cuts;
  options.ticks_per_call = spec.parts.evaluator->ticks_per_row();
  if (const auto most_rows = spec.parts.method.kind->most_rows) {
    // A round evaluates as many calls and accepts at least one of them.
    options.ticks_per_call *= static_cast<std::uint64_t>(
        std::clamp(most_rows(spec.parts.method), 1,
                   spec.parts.schedule->num_model_calls()));
  }
  return options;
}

std::uint64_t JobResult::count(SampleStatus status) const {
  return static_cast<std::uint64_t>(
      std::ranges::count(samples, status, &SampleReport::status));
}

JobResult run_job(const JobSpec& spec) { return run_company(spec, {}); }

JobResult run_company(const JobSpec& spec, const Detours& detours) {
  const auto job = std::make_shared<JobContext>(
      spec.parts, std::make_shared<const SteadyClock>(), spec.trace);
  const TimePoint start = job->clock->now();
  std::promise<JobHistory> promise;
  std::future<JobHistory> over = promise.get_future();
  std::vector<NodeSpec> nodes = cut_into_nodes(spec.workers);
  const auto stores =
      make_stores(*job, static_cast<int>(nodes.size()), detours);

  SystemConfig config;
  JobResult result;
  // An actor_system that cannot start its threads crashes in its destructor.
  check_threads(kSystemThreads +
                (spec.make_executor ? 0 : num_threads(spec.workers)));
  {
    // Ends after the actors: it waits for the threads of their workers.
    ThreadExecutor joiner;
    for (NodeSpec& node : nodes) {
      // A worker of this process outlives the task that is parked for its ends.
      node.restart = spec.restart;
      node.restart.max_restarts =
          std::max(node.restart.max_restarts, spec.max_losses + 1);
      node.job = job;
      node.store = stores[static_cast<std::size_t>(node.process)];
      node.make_executor = spec.make_executor;
      node.joiner = &joiner;
    }
    // Its destructor waits until every actor has ended.
    caf::actor_system system(config);
    Company company = spawn_company(system,
                                    {spec.observers,
                                     [&promise](JobHistory record) {
                                       promise.set_value(std::move(record));
                                     }},
                                    {coordinator_options(spec),
                                     job,
                                     stores.front(),
                                     {},
                                     spec.trace,
                                     &joiner},
                                    std::move(nodes), detours);
    {
      const std::stop_callback halt(spec.stop, [&company] {
        caf::anon_send(company.coordinator, halt_atom{});
      });
      if (detours.begin) {
        detours.begin(system, company.coordinator);
      }
      result = to_result(over.get());
    }
    if (detours.end) {
      detours.end();
    }
    company.dismiss();
  }
  result.wall_seconds =
      std::chrono::duration<double>(job->clock->now() - start).count();
  return result;
}

}  // namespace troupe::actors

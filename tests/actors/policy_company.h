#pragma once

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "actors/coordinator_policy.h"
#include "actors/packer.h"
#include "tests/actors/toy_evaluator.h"

namespace troupe::actors {

inline const samplers::Schedule& short_schedule() {
  static const samplers::Schedule schedule(ddim_steps(5));
  return schedule;
}

/// Workers of one class on the CPU.
inline std::vector<WorkerTraits> alike(int workers, int max_rows) {
  return std::vector<WorkerTraits>(static_cast<std::size_t>(workers),
                                   {.max_rows = max_rows});
}

/// The policy with workers that answer when told, and compute nothing. Each
/// worker joins what it is granted into passes; two at most lie in its mailbox.
class Company {
 public:
  Company(samplers::MethodOptions method, int workers, std::uint64_t samples,
          CoordinatorOptions options = {})
      : mailboxes(static_cast<std::size_t>(workers)),
        epochs(static_cast<std::size_t>(workers), 0),
        waiting(static_cast<std::size_t>(workers)),
        policy_([&] {
          for (std::uint64_t i = 0; i < samples; ++i) {
            options.samples.push_back(i);
          }
          options.make_method = [method] {
            return make_method(method, short_schedule());
          };
          options.method = method;
          options.workers.resize(static_cast<std::size_t>(workers));
          traits_ = options.workers;
          return options;
        }()) {}

  void on(const CoordinatorEvent& event) {
    for (CoordinatorCommand& command : policy_.on(event, now)) {
      if (auto* grant = std::get_if<Grant>(&command)) {
        const auto w = static_cast<std::size_t>(grant->worker);
        for (const SampleTask& work : grant->tasks) {
          if (samplers::step_of(work.task)) {
            step_workers[work.sample_index].insert(grant->worker);
          }
          workers_of_run[{work.sample_index, work.run}].insert(grant->worker);
          waiting[w].packer.push(work);
        }
        waiting[w].max_rows = grant->max_rows;
        std::ranges::copy(grant->remote_inputs,
                          std::back_inserter(waiting[w].remote));
        grants.push_back(std::move(*grant));
      } else if (auto* free = std::get_if<FreeValues>(&command)) {
        freed.push_back(std::move(*free));
      } else if (auto* drop = std::get_if<DropRuns>(&command)) {
        dropped.push_back(*drop);
      } else if (auto* fetch = std::get_if<FetchValues>(&command)) {
        fetches.push_back(std::move(*fetch));
      } else if (auto* show = std::get_if<ShowResult>(&command)) {
        shown.push_back(std::move(show->samples));
      } else if (auto* ended = std::get_if<EndSample>(&command)) {
        reports.push_back(ended->report);
      } else if (auto* over = std::get_if<EndJob>(&command)) {
        ++times_ended;
        end = std::move(*over);
      } else if (auto* report = std::get_if<JobProgress>(&command)) {
        progress = *report;
      } else if (auto* fence = std::get_if<FenceWorker>(&command)) {
        fenced.push_back(fence->worker);
      } else if (auto* retire = std::get_if<RetireWorker>(&command)) {
        retired.insert(retire->worker);
        forget(retire->worker);
      }
    }
    for (std::size_t w = 0; w < mailboxes.size(); ++w) {
      fill(static_cast<int>(w));
    }
  }
  /// As if the worker had ended.
  void forget(int worker) {
    mailboxes[static_cast<std::size_t>(worker)].clear();
    waiting[static_cast<std::size_t>(worker)] = {};
  }

  void raise(int worker) {
    on(WorkerUp{worker, ++epochs[static_cast<std::size_t>(worker)]});
  }
  void raise_all() {
    for (std::size_t w = 0; w < mailboxes.size(); ++w) {
      raise(static_cast<int>(w));
    }
  }
  void kill(int worker) {
    forget(worker);
    on(WorkerDown{worker, epochs[static_cast<std::size_t>(worker)]});
  }

  [[nodiscard]] GrantResult answer(const Grant& grant) const {
    GrantResult result;
    result.span.duration = grant_duration;
    result.worker = grant.worker;
    result.epoch = grant.epoch;
    for (const SampleTask& work : grant.tasks) {
      result.grants.push_back(work.grant);
      samplers::TaskResult one{work.task.id, work.task.version, {}};
      if (work.task.op == samplers::Op::sweep) {
        for (int i = work.task.from; i < work.task.to; ++i) {
          one.scalars.insert(one.scalars.end(), {0.0, 1.0});
        }
      }
      result.results.push_back(one);
      const Device memory =
          traits_[static_cast<std::size_t>(grant.worker)].device;
      for (const samplers::Slot slot : work.task.outputs) {
        result.held.push_back({{work.sample_index, work.run, slot}, memory});
      }
    }
    for (const RemoteValue& input : grant.remote_inputs) {
      result.held.push_back({input.name, {}});
    }
    return result;
  }
  [[nodiscard]] GrantResult fail(const Grant& grant, Errc code) const {
    GrantResult result = answer(grant);
    result.results.clear();
    result.held.clear();
    result.failure = Failure{code, "test", "made to fail", {}};
    return result;
  }

  [[nodiscard]] Grant take(int worker) {
    auto& box = mailboxes[static_cast<std::size_t>(worker)];
    Grant grant = box.front();
    box.pop_front();
    fill(worker);
    return grant;
  }
  bool run_one(int worker) {
    if (mailboxes[static_cast<std::size_t>(worker)].empty()) {
      return false;
    }
    on(answer(take(worker)));
    return true;
  }
  /// Lets workers answer in an order that the seed decides.
  void run_to_end(std::uint32_t seed = 1) {
    std::mt19937 random(seed);
    for (int i = 0; i < 100000 && times_ended == 0; ++i) {
      run_one(static_cast<int>(random() % mailboxes.size()));
      if (!fetches.empty()) {
        const FetchValues fetch = fetches.front();
        fetches.pop_front();
        on(ValuesFetched{fetch.sample_index, fetch.run, {}});
      }
    }
  }

  TimePoint now{};
  Duration grant_duration{};  ///< what every grant is said to have taken
  std::vector<std::deque<Grant>> mailboxes;  ///< passes
  std::vector<std::uint32_t> epochs;
  std::map<std::uint64_t, std::set<int>> step_workers;
  std::vector<SampleReport> reports;
  /// By sample and run.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::set<int>>
      workers_of_run;
  std::vector<std::set<std::uint64_t>> shown;  ///< by result that counted
  std::vector<FreeValues> freed;
  std::vector<DropRuns> dropped;
  std::deque<FetchValues> fetches;  ///< of the coordinator's process
  std::vector<int> fenced;
  std::set<int> retired;
  JobProgress progress;
  std::vector<Grant> grants;  ///< as they were sent
  std::size_t deepest = 0;    ///< mailbox
  int times_ended = 0;
  EndJob end;

 private:
  struct Waiting {
    Packer packer;
    int max_rows = 1;
    std::vector<RemoteValue> remote;
  };
  void fill(int worker) {
    auto& box = mailboxes[static_cast<std::size_t>(worker)];
    Waiting& own = waiting[static_cast<std::size_t>(worker)];
    while (box.size() < 2 && !own.packer.empty()) {
      Grant& pass = box.emplace_back();
      pass.worker = worker;
      pass.epoch = epochs[static_cast<std::size_t>(worker)];
      pass.tasks = own.packer.next(own.max_rows);
      for (const RemoteValue& value : own.remote) {
        for (const SampleTask& work : pass.tasks) {
          const ValueName& name = value.name;
          if (name.sample_index == work.sample_index && name.run == work.run &&
              std::ranges::find(work.task.inputs, name.slot) !=
                  work.task.inputs.end()) {
            pass.remote_inputs.push_back(value);
          }
        }
      }
      deepest = std::max(deepest, box.size());
    }
  }

  std::vector<Waiting> waiting;
  std::vector<WorkerTraits> traits_;
  CoordinatorPolicy policy_;
};

inline std::size_t num_done(const Company& company) {
  return static_cast<std::size_t>(std::count_if(
      company.reports.begin(), company.reports.end(),
      [](const auto& r) { return r.status == SampleStatus::done; }));
}

}  // namespace troupe::actors

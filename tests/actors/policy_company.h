#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "actors/coordinator_policy.h"
#include "actors/worker_policy.h"
#include "tests/actors/toy_evaluator.h"

namespace troupe::actors {

inline const samplers::Schedule& short_schedule(
    samplers::MethodKind kind = samplers::MethodKind::sequential) {
  static const samplers::Schedule schedule(ddim_steps(5));
  static const samplers::Schedule noisy = [] {
    samplers::ScheduleOptions options = ddim_steps(5);
    options.eta = 1.0;
    return samplers::Schedule(options);
  }();
  return kind == samplers::MethodKind::speculative ? noisy : schedule;
}

/// Workers of one class on the CPU.
inline std::vector<WorkerTraits> alike(int workers, int max_rows) {
  return std::vector<WorkerTraits>(static_cast<std::size_t>(workers),
                                   {.max_rows = max_rows});
}

/// The coordinator's policy with workers that answer when the test asks, and
/// compute nothing. The workers' own policies join granted tasks into passes; a
/// mailbox holds two passes at most. Values are at once where the results say.
class Company {
 public:
  Company(samplers::MethodOptions method, int workers, std::uint64_t samples,
          CoordinatorOptions options = {})
      : mailboxes(static_cast<std::size_t>(workers)),
        epochs(static_cast<std::size_t>(workers), 0),
        policies_(static_cast<std::size_t>(workers)),
        policy_([&] {
          for (std::uint64_t i = 0; i < samples; ++i) {
            options.samples.push_back(i);
          }
          if (!options.make_method) {
            options.make_method = [method] {
              return make_method(method, short_schedule(method.kind));
            };
          }
          options.method = method;
          options.workers.resize(static_cast<std::size_t>(workers));
          traits_ = options.workers;
          return options;
        }()) {}

  void on(const CoordinatorEvent& event) { on_all({event}); }
  /// For what no worker of the company says.
  [[nodiscard]] CoordinatorPolicy& policy() noexcept { return policy_; }
  /// Results that came together, or one event.
  void on_all(const std::vector<CoordinatorEvent>& events) {
    std::vector<CoordinatorCommand> commands;
    for (const CoordinatorEvent& event : events) {
      if (const auto* result = std::get_if<GrantResult>(&event)) {
        note(*result);
      }
      policy_.take(event, now, commands);
      perform_all(commands);
    }
    policy_.give_grants(commands);
    perform_all(commands);
    answer_questions();
    for (std::size_t w = 0; w < mailboxes.size(); ++w) {
      fill(w);
    }
    if (!keeps_returned) {
      hear_returned();
    }
  }

  /// What comes again, too late or from nobody: it changes nothing outside the
  /// policy.
  void hear(const CoordinatorEvent& event) {
    std::vector<CoordinatorCommand> commands = policy_.on(event, now);
    perform_all(commands);
    answer_questions();
    for (std::size_t w = 0; w < mailboxes.size(); ++w) {
      fill(w);
    }
  }

  /// As its process: the workers come up when they are raised.
  void join(int process, std::vector<WorkerTraits> workers,
            const ProcessMeans& means = {}) {
    on(ProcessJoined{process, workers, 0, means});
    if (admitted.empty() || admitted.back().process != process) {
      return;
    }
    for (WorkerTraits& traits : workers) {
      traits.process = process;
      traits_.push_back(traits);
    }
    mailboxes.resize(traits_.size());
    epochs.resize(traits_.size());
    policies_.resize(traits_.size());
  }

  void raise(int worker) {
    const auto w = static_cast<std::size_t>(worker);
    policies_[w].emplace(worker, ++epochs[w], traits_[w].process, 2);
    on(WorkerUp{worker, epochs[w]});
  }
  void raise_all() {
    for (std::size_t w = 0; w < mailboxes.size(); ++w) {
      raise(static_cast<int>(w));
    }
  }
  /// As if the worker had ended.
  void forget(int worker) {
    mailboxes[static_cast<std::size_t>(worker)].clear();
    policies_[static_cast<std::size_t>(worker)].reset();
  }
  void kill(int worker) {
    forget(worker);
    on(WorkerDown{worker, epochs[static_cast<std::size_t>(worker)]});
  }

  [[nodiscard]] GrantResult answer(const Grant& pass) const {
    GrantResult result;
    const auto paced = paces.find(pass.worker);
    result.span.duration =
        paced != paces.end() ? paced->second : grant_duration;
    result.span.op = pass.tasks.at(0).task.op;
    result.worker = pass.worker;
    result.epoch = pass.epoch;
    auto& results = std::get<TasksDone>(result.outcome).results;
    for (const SampleTask& work : pass.tasks) {
      result.grants.push_back(work.grant);
      samplers::TaskResult one{work.task.id, work.task.version, {}};
      // Of a sweep: no residual, and every byte is the same.
      one.scalars.assign(samplers::num_scalars(work.task), 0.0);
      if (!one.scalars.empty()) {
        one.scalars.back() = 1.0;
      }
      results.push_back(one);
      const Device memory =
          traits_[static_cast<std::size_t>(pass.worker)].device;
      for (const samplers::Slot slot : work.task.outputs) {
        result.held.push_back({{work.sample_index, work.run, slot}, memory});
      }
    }
    for (const RemoteValue& input : pass.sources) {
      result.held.push_back({input.name, {}});
    }
    return result;
  }
  [[nodiscard]] GrantResult fail(const Grant& pass, Errc code) const {
    GrantResult result = answer(pass);
    result.held.clear();
    result.outcome = TasksFailed{{code, "test", "made to fail", {}}};
    return result;
  }

  /// The next pass of a worker.
  [[nodiscard]] Grant take(int worker) {
    auto& box = mailboxes[static_cast<std::size_t>(worker)];
    Grant pass = box.front();
    box.pop_front();
    return pass;
  }
  bool run_one(int worker) {
    if (mailboxes[static_cast<std::size_t>(worker)].empty()) {
      return false;
    }
    on(answer(take(worker)));
    return true;
  }
  /// What workers gave back comes to the coordinator.
  void hear_returned() {
    while (!returned.empty()) {
      const GrantResult back = std::move(returned.front());
      returned.pop_front();
      on(back);
    }
  }
  /// Lets workers answer in an order that the seed decides.
  void run_to_end(std::uint32_t seed = 1) {
    std::mt19937 random(seed);
    for (int i = 0; i < 100000 && times_ended == 0; ++i) {
      run_one(static_cast<int>(random() % mailboxes.size()));
      if (!fetches.empty()) {
        const FetchValues fetch = fetches.front();
        fetches.pop_front();
        on(ValuesFetched{fetch.sample_index, fetch.run, fetch.number, {}});
      }
      if (!intermediates.empty()) {
        copy();
      }
    }
  }

  /// The oldest intermediate is copied; with `is_there`, its values were there.
  FetchIntermediate copy(bool is_there = true) {
    FetchIntermediate fetch = std::move(intermediates.front());
    intermediates.pop_front();
    on(IntermediateFetched{
        fetch.sample_index, fetch.run, fetch.number,
        is_there ? std::vector<RemoteValue>{} : fetch.values});
    return fetch;
  }

  /// What the options' cuts hold.
  void slots_of_cut_0(std::vector<samplers::Slot> slots) {
    slots_of_cuts_[0] = std::move(slots);
  }
  /// The oldest cut is taken; with `is_whole`, all of its values were there.
  TakeCut take_cut(bool is_whole = true) {
    TakeCut cut = std::move(cuts.front());
    cuts.pop_front();
    slots_of_cuts_[cut.number] = cut.cut.slots;
    on(CutTaken{cut.sample_index, cut.run, cut.number,
                is_whole ? std::vector<RemoteValue>{} : cut.values});
    return cut;
  }

  TimePoint now{};
  Duration grant_duration{};      ///< what every pass is said to have taken
  std::map<int, Duration> paces;  ///< on these workers
  std::vector<std::deque<Grant>> mailboxes;  ///< passes
  std::vector<std::uint32_t> epochs;
  std::map<std::uint64_t, std::set<int>> step_workers;
  std::vector<SampleReport> reports;
  /// By sample and run.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::set<int>>
      workers_of_run;
  std::size_t num_counted = 0;                  ///< passes that observers see
  std::deque<FetchIntermediate> intermediates;  ///< to be copied
  std::vector<ShowIntermediate> shown;
  std::vector<FreeValues> freed;
  std::vector<DropRuns> dropped;
  std::deque<FetchValues> fetches;  ///< of the coordinator's process
  std::deque<TakeCut> cuts;         ///< that are not taken yet
  std::vector<RestoreCut> restores;
  bool keeps_returned = false;       ///< for the test to pass on
  std::deque<GrantResult> returned;  ///< to recalls
  std::vector<int> released;         ///< processes
  std::vector<AdmitProcess> admitted;
  std::vector<RefuseProcess> refused;
  std::vector<int> fenced;
  std::vector<LinkWeighed> link_lines;  ///< of the log
  std::set<int> retired;
  JobProgress progress;
  std::vector<Grant> grants;  ///< as they were sent
  std::vector<Redirect> redirects;
  std::size_t deepest = 0;  ///< mailbox
  int times_ended = 0;
  EndJob end;

 private:
  std::map<std::uint64_t, std::vector<samplers::Slot>> slots_of_cuts_;

  struct Question {
    int worker = 0;
    std::uint32_t epoch = 0;
    RemoteValue value;
  };

  void note(const GrantResult& result) {
    const auto w = static_cast<std::size_t>(result.worker);
    if (policies_[w] && epochs[w] == result.epoch) {
      (void)policies_[w]->on(WorkDone{result});
    }
    for (const HeldValue& value : result.held) {
      values_[traits_[w].process].insert(value.name);
    }
  }
  void perform_all(std::vector<CoordinatorCommand>& commands) {
    for (CoordinatorCommand& command : commands) {
      std::visit([this](auto& c) { perform(c); }, command);
    }
  }
  void perform(Grant& grant) {
    const auto w = static_cast<std::size_t>(grant.worker);
    for (const SampleTask& work : grant.tasks) {
      if (samplers::step_of(work.task)) {
        step_workers[work.sample_index].insert(grant.worker);
      }
      workers_of_run[{work.sample_index, work.run}].insert(grant.worker);
    }
    grants.push_back(grant);
    if (policies_[w]) {
      ask(w, policies_[w]->on(std::move(grant)));
    }
  }
  void perform(Redirect& redirect) {
    const auto w = static_cast<std::size_t>(redirect.worker);
    redirects.push_back(redirect);
    if (policies_[w]) {
      ask(w, policies_[w]->on(std::move(redirect)));
    }
  }
  void ask(std::size_t w, const std::vector<WorkerCommand>& commands) {
    for (const WorkerCommand& command : commands) {
      if (const auto* fetch = std::get_if<FetchInputs>(&command)) {
        for (const RemoteValue& value : fetch->values) {
          questions_.push_back({static_cast<int>(w), epochs[w], value});
        }
      }
    }
  }
  void perform(FreeValues& free) { freed.push_back(std::move(free)); }
  void perform(DropRuns& drop) {
    dropped.push_back(drop);
    for (std::size_t w = 0; w < policies_.size(); ++w) {
      if (policies_[w] && traits_[w].process == drop.process &&
          !drop.all_answered) {
        (void)policies_[w]->on(drop);
      }
    }
  }
  void perform(FetchValues& fetch) {
    for (const RemoteValue& value : fetch.values) {
      values_[kHomeProcess].insert(value.name);
    }
    fetches.push_back(std::move(fetch));
  }
  void perform(Recall& recall) {
    const auto w = static_cast<std::size_t>(recall.worker);
    if (!policies_[w]) {
      return;
    }
    for (WorkerCommand& command : policies_[w]->on(std::move(recall))) {
      returned.push_back(std::get<GrantResult>(std::move(command)));
    }
  }
  void perform(ReleaseProcess& release) { released.push_back(release.process); }
  void perform(AdmitProcess& admit) { admitted.push_back(admit); }
  void perform(RefuseProcess& refuse) { refused.push_back(refuse); }
  void perform(TakeCut& take) { cuts.push_back(std::move(take)); }
  void perform(RestoreCut& restore) {
    restores.push_back(restore);
    for (const samplers::Slot slot : slots_of_cuts_.at(restore.number)) {
      values_[kHomeProcess].insert({restore.sample_index, restore.run, slot});
    }
  }
  void perform(FetchIntermediate& fetch) {
    intermediates.push_back(std::move(fetch));
  }
  void perform(ShowPass& /*show*/) { ++num_counted; }
  void perform(ShowIntermediate& show) { shown.push_back(show); }
  void perform(EndSample& ended) { reports.push_back(ended.report); }
  void perform(EndJob& over) {
    ++times_ended;
    end = std::move(over);
  }
  void perform(JobProgress& report) { progress = report; }
  void perform(FenceWorker& fence) { fenced.push_back(fence.worker); }
  void perform(LinkWeighed& weighed) { link_lines.push_back(weighed); }
  void perform(RetireWorker& retire) {
    retired.insert(retire.worker);
    forget(retire.worker);
  }

  void answer_questions() {
    std::erase_if(questions_, [this](const Question& question) {
      const auto w = static_cast<std::size_t>(question.worker);
      if (!policies_[w] || epochs[w] != question.epoch) {
        return true;
      }
      const ValueName& name = question.value.name;
      if (!values_[question.value.process].contains(name)) {
        return false;
      }
      (void)policies_[w]->on(InputHere{name});
      return true;
    });
  }
  void fill(std::size_t w) {
    while (policies_[w] && policies_[w]->has_next()) {
      mailboxes[w].push_back(*policies_[w]->next());
      deepest = std::max(deepest, mailboxes[w].size());
    }
  }

  std::vector<WorkerTraits> traits_;
  std::vector<std::optional<WorkerPolicy>> policies_;
  std::map<int, std::set<ValueName>> values_;  ///< by process
  std::vector<Question> questions_;
  CoordinatorPolicy policy_;
};

/// Brings home what is asked for.
inline void answer_fetches(Company& company) {
  while (!company.fetches.empty()) {
    const FetchValues fetch = company.fetches.front();
    company.fetches.pop_front();
    company.on(ValuesFetched{
        fetch.sample_index, fetch.run, fetch.number, {}, fetch.is_rescue});
  }
}

inline std::size_t num_done(const Company& company) {
  return static_cast<std::size_t>(std::count_if(
      company.reports.begin(), company.reports.end(),
      [](const auto& r) { return r.status == SampleStatus::done; }));
}

}  // namespace troupe::actors

#include "actors/worker_policy.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace troupe::actors {
namespace {

/// Stands for the worker's process among those that are asked for a value.
constexpr int kOwnProcess = -1;

}  // namespace

std::vector<WorkerCommand> WorkerPolicy::on(WorkerEvent event) {
  return std::visit([this](auto& e) { return handle(e); }, event);
}

std::vector<WorkerCommand> WorkerPolicy::handle(Grant& grant) {
  if (stopped_ || grant.worker != worker_ || grant.epoch != epoch_) {
    return {};
  }
  Commands commands;
  if (!grant.frees.empty()) {
    commands.push_back(FreeOwn{std::move(grant.frees)});
  }
  max_rows_ = grant.max_rows;
  FetchInputs fetch;
  AwaitInputs await;
  for (SampleTask& task : grant.tasks) {
    const std::uint64_t id = task.grant;
    if (id > newest_) {
      newest_ = id;
      held_.insert(id);
      Waiting& waiting = waiting_[id];
      waiting.task = std::move(task);
      look_for_inputs(grant, waiting, fetch, await);
      make_ready_if_whole(id);
    } else if (const auto known = waiting_.find(id); known != waiting_.end()) {
      // Said again: an input will come from somewhere else.
      look_for_inputs(grant, known->second, fetch, await);
    }
  }
  if (!fetch.values.empty()) {
    commands.push_back(std::move(fetch));
  }
  if (!await.names.empty()) {
    commands.push_back(std::move(await));
  }
  return commands;
}

std::vector<WorkerCommand> WorkerPolicy::handle(Recall& recall) {
  if (recall.worker != worker_ || recall.epoch != epoch_) {
    return {};
  }
  GrantResult result;
  result.worker = worker_;
  result.epoch = epoch_;
  result.returned = true;
  for (const std::uint64_t id : recall.grants) {
    if (waiting_.erase(id) > 0) {
      result.grants.push_back(id);
    }
  }
  for (const SampleTask& task :
       ready_.take({recall.grants.begin(), recall.grants.end()})) {
    result.grants.push_back(task.grant);
    fetched_.erase(task.grant);
  }
  for (const std::uint64_t id : result.grants) {
    held_.erase(id);
  }
  Commands commands;
  if (!result.grants.empty()) {
    commands.push_back(std::move(result));
  }
  return commands;
}

/// Adds what the task lacks by the grant to what it waits for, and to what is
/// to be asked for: each source once.
void WorkerPolicy::look_for_inputs(const Grant& grant, Waiting& waiting,
                                   FetchInputs& fetch, AwaitInputs& await) {
  const SampleTask& work = waiting.task;
  const auto is_new_question = [&](const ValueName& name, int source) {
    const bool reads = name.sample_index == work.sample_index &&
                       name.run == work.run &&
                       std::ranges::find(work.task.inputs, name.slot) !=
                           work.task.inputs.end();
    if (!reads) {
      return false;
    }
    Wanted& wanted = wanted_[name];
    if (waiting.missing.insert(name).second) {
      wanted.waiters.push_back(work.grant);
    }
    return wanted.asked.insert(source).second;
  };
  for (const RemoteValue& value : grant.remote_inputs) {
    if (is_new_question(value.name, value.process)) {
      fetch.values.push_back(value);
    }
    if (waiting.missing.contains(value.name)) {
      waiting.fetched.push_back(value);
    }
  }
  for (const ValueName& name : grant.coming_inputs) {
    if (is_new_question(name, kOwnProcess)) {
      await.names.push_back(name);
    }
  }
}

void WorkerPolicy::make_ready_if_whole(std::uint64_t id) {
  const auto found = waiting_.find(id);
  if (found->second.missing.empty()) {
    ready_.push(take_whole(found));
  }
}

/// Takes off a task that waits no more.
SampleTask WorkerPolicy::take_whole(WaitingTasks::iterator found) {
  Waiting& waiting = found->second;
  if (!waiting.fetched.empty()) {
    fetched_[found->first] = std::move(waiting.fetched);
  }
  SampleTask task = std::move(waiting.task);
  waiting_.erase(found);
  return task;
}

std::vector<WorkerCommand> WorkerPolicy::handle(InputHere& here) {
  const auto wanted = wanted_.extract(here.name);
  if (!wanted.empty()) {
    for (const std::uint64_t id : wanted.mapped().waiters) {
      const auto found = waiting_.find(id);
      if (found != waiting_.end()) {
        found->second.missing.erase(here.name);
        make_ready_if_whole(id);
      }
    }
  }
  return {};
}

std::vector<WorkerCommand> WorkerPolicy::handle(InputGone& gone) {
  const auto found = wanted_.find(gone.value.name);
  if (found == wanted_.end()) {
    return {};
  }
  std::set<int>& asked = found->second.asked;
  if (asked.erase(gone.value.process) == 0) {
    asked.erase(kOwnProcess);
  }
  if (!asked.empty()) {
    return {};  // it may come from somebody else
  }
  GrantResult result;
  for (const std::uint64_t id : found->second.waiters) {
    if (waiting_.erase(id) > 0) {
      held_.erase(id);
      result.grants.push_back(id);
    }
  }
  wanted_.erase(found);
  if (result.grants.empty() || stopped_) {
    return {};
  }
  result.worker = worker_;
  result.epoch = epoch_;
  result.gone = {gone.value};
  Commands commands;
  commands.push_back(std::move(result));
  return commands;
}

std::vector<WorkerCommand> WorkerPolicy::handle(DropRuns& drop) {
  const std::uint32_t last =
      drop.last_run.value_or(std::numeric_limits<std::uint32_t>::max());
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const SampleTask& task = it->second.task;
    if (task.sample_index == drop.sample_index && task.run <= last) {
      held_.erase(it->first);
      it = waiting_.erase(it);
    } else {
      ++it;
    }
  }
  for (const SampleTask& task : ready_.drop(drop.sample_index, last)) {
    held_.erase(task.grant);
    fetched_.erase(task.grant);
  }
  std::erase_if(wanted_, [&](const auto& entry) {
    return entry.first.sample_index == drop.sample_index &&
           entry.first.run <= last;
  });
  return {};
}

/// Steps and sweeps that wait only for what the pass makes run in it, behind
/// the tasks that make it: a Picard round is swept at once where all of its
/// evaluations are there.
void WorkerPolicy::join_readers(std::vector<SampleTask>& pass) {
  if (is_heavy(pass.front().task) || pass.front().alone) {
    return;
  }
  std::set<ValueName> made;
  for (std::size_t i = 0; i < pass.size(); ++i) {  // it grows
    std::vector<ValueName> outputs;
    for (const samplers::Slot slot : pass[i].task.outputs) {
      outputs.push_back({pass[i].sample_index, pass[i].run, slot});
    }
    made.insert(outputs.begin(), outputs.end());
    for (const ValueName& name : outputs) {
      const auto wanted = wanted_.find(name);
      if (wanted == wanted_.end()) {
        continue;
      }
      for (const std::uint64_t id : wanted->second.waiters) {
        const auto found = waiting_.find(id);
        if (found != waiting_.end() && !is_heavy(found->second.task.task) &&
            !found->second.task.alone &&
            std::ranges::includes(made, found->second.missing)) {
          found->second.missing.clear();
          pass.push_back(take_whole(found));
        }
      }
    }
  }
}

std::optional<Grant> WorkerPolicy::next() {
  if (!has_next()) {
    return std::nullopt;
  }
  Grant pass;
  pass.worker = worker_;
  pass.epoch = epoch_;
  pass.tasks = ready_.next(max_rows_);
  join_readers(pass.tasks);
  for (const SampleTask& task : pass.tasks) {
    if (const auto fetched = fetched_.extract(task.grant)) {
      std::ranges::move(fetched.mapped(),
                        std::back_inserter(pass.remote_inputs));
    }
  }
  ++num_running_;
  return pass;
}

std::vector<WorkerCommand> WorkerPolicy::handle(WorkDone& done) {
  --num_running_;
  for (const std::uint64_t id : done.result.grants) {
    held_.erase(id);
  }
  TraceSpan& span = done.result.span;
  // What was queued behind another pass began to run at the end of that.
  const TimePoint end = span.start + span.duration;
  span.start = std::clamp(last_end_, span.start, end);
  span.duration = end - span.start;
  last_end_ = end;
  Commands commands;
  commands.push_back(std::move(done.result));
  return commands;
}

std::vector<WorkerCommand> WorkerPolicy::handle(StopWork& /*stop*/) {
  stopped_ = true;
  return {InterruptWork{}};
}

std::vector<WorkerCommand> WorkerPolicy::handle(BeatAsked& asked) {
  return {WorkerBeat{worker_, epoch_, asked.ticks, waits()}};
}

}  // namespace troupe::actors

#include "actors/worker_policy.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

namespace troupe::actors {
namespace {

template <typename T, std::size_t N>
bool contains(const InlineVector<T, N>& values, const T& value) {
  return std::ranges::find(values, value) != values.end();
}

/// Whether it was there.
template <typename T, std::size_t N>
bool erase_first(InlineVector<T, N>& values, const T& value) {
  const auto place = std::ranges::find(values, value);
  const bool is_there = place != values.end();
  if (is_there) {
    values.erase(place);
  }
  return is_there;
}

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
  for (SampleTask& task : grant.tasks) {
    const std::uint64_t id = task.grant;
    if (id > newest_) {
      newest_ = id;
      held_.push_back(id);
      Waiting waiting{.task = std::move(task)};
      look_for_inputs(grant.sources, waiting, fetch);
      if (waiting.missing.empty()) {
        ready_.push(std::move(waiting.task));
      } else {
        waiting_[id] = std::move(waiting);
      }
    }
  }
  if (!fetch.values.empty()) {
    commands.push_back(std::move(fetch));
  }
  return commands;
}

std::vector<WorkerCommand> WorkerPolicy::handle(Redirect& redirect) {
  if (stopped_ || redirect.worker != worker_ || redirect.epoch != epoch_) {
    return {};
  }
  FetchInputs fetch;
  if (Waiting* const waiting = waiting_.find(redirect.grant)) {
    look_for_inputs(redirect.sources, *waiting, fetch);
  }
  Commands commands;
  if (!fetch.values.empty()) {
    commands.push_back(std::move(fetch));
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
  result.outcome = TasksReturned{};
  for (const std::uint64_t id : recall.grants) {
    if (waiting_.take(id)) {
      result.grants.push_back(id);
    }
  }
  for (const SampleTask& task :
       ready_.take({recall.grants.begin(), recall.grants.end()})) {
    result.grants.push_back(task.grant);
    fetched_.erase(task.grant);
  }
  std::ranges::for_each(result.grants,
                        [this](std::uint64_t id) { let_go(id); });
  Commands commands;
  if (!result.grants.empty()) {
    commands.push_back(std::move(result));
  }
  return commands;
}

/// The task waits for its inputs that have a source here. A source that nobody
/// has asked yet is to be asked.
void WorkerPolicy::look_for_inputs(const std::vector<RemoteValue>& sources,
                                   Waiting& waiting, FetchInputs& fetch) {
  const SampleTask& work = waiting.task;
  for (const RemoteValue& value : sources) {
    const ValueName& name = value.name;
    const bool reads = name.sample_index == work.sample_index &&
                       name.run == work.run &&
                       contains(work.task.inputs, name.slot);
    if (!reads) {
      continue;
    }
    Wanted& wanted = wanted_[name];
    if (!contains(waiting.missing, name)) {
      waiting.missing.push_back(name);
      wanted.waiters.push_back(work.grant);
    }
    if (!contains(wanted.asked, value.process)) {
      wanted.asked.push_back(value.process);
      fetch.values.push_back(value);
    }
    // Somebody else was to make it, when the task was granted.
    if (value.process == process_) {
      std::erase_if(waiting.fetched, [&](const RemoteValue& before) {
        return before.name == name;
      });
    } else {
      erase_first(wanted.asked, process_);
      waiting.fetched.push_back(value);
    }
  }
}

/// A value is here, which the task may wait for.
void WorkerPolicy::note_here(std::uint64_t id, const ValueName& name) {
  if (Waiting* const waiting = waiting_.find(id)) {
    erase_first(waiting->missing, name);
    if (waiting->missing.empty()) {
      ready_.push(take_whole(id));
    }
  }
}

/// Takes off a task that waits no more.
SampleTask WorkerPolicy::take_whole(std::uint64_t id) {
  Waiting waiting = *waiting_.take(id);
  if (!waiting.fetched.empty()) {
    fetched_[id] = std::move(waiting.fetched);
  }
  return std::move(waiting.task);
}

void WorkerPolicy::let_go(std::uint64_t id) {
  const auto place = std::ranges::lower_bound(held_, id);
  if (place != held_.end() && *place == id) {
    held_.erase(place);
  }
}

std::vector<WorkerCommand> WorkerPolicy::handle(InputHere& here) {
  if (const auto wanted = wanted_.take(here.name)) {
    for (const std::uint64_t id : wanted->waiters) {
      note_here(id, here.name);
    }
  }
  return {};
}

std::vector<WorkerCommand> WorkerPolicy::handle(InputGone& gone) {
  Wanted* const found = wanted_.find(gone.value.name);
  if (found == nullptr) {
    return {};
  }
  erase_first(found->asked, gone.value.process);
  if (!found->asked.empty()) {
    return {};  // it may come from somebody else
  }
  GrantResult result;
  for (const std::uint64_t id : found->waiters) {
    if (waiting_.take(id)) {
      let_go(id);
      result.grants.push_back(id);
    }
  }
  wanted_.erase(gone.value.name);
  if (result.grants.empty() || stopped_) {
    return {};
  }
  result.worker = worker_;
  result.epoch = epoch_;
  result.outcome = InputsGone{{gone.value}};
  Commands commands;
  commands.push_back(std::move(result));
  return commands;
}

std::vector<WorkerCommand> WorkerPolicy::handle(DropRuns& drop) {
  const std::uint32_t last =
      drop.last_run.value_or(std::numeric_limits<std::uint32_t>::max());
  waiting_.erase_if([&](std::uint64_t id, const Waiting& waiting) {
    const bool is_dropped = waiting.task.sample_index == drop.sample_index &&
                            waiting.task.run <= last;
    if (is_dropped) {
      let_go(id);
    }
    return is_dropped;
  });
  for (const SampleTask& task : ready_.drop(drop.sample_index, last)) {
    let_go(task.grant);
    fetched_.erase(task.grant);
  }
  wanted_.erase_if([&](const ValueName& name, const Wanted& /*wanted*/) {
    return name.sample_index == drop.sample_index && name.run <= last;
  });
  return {};
}

/// Steps and sweeps that wait only for outputs of the pass run in the same
/// pass, behind their makers: a Picard round is swept at once where all of its
/// evaluations are there.
void WorkerPolicy::join_readers(std::vector<SampleTask>& pass) {
  if (pass.front().task.op->is_heavy() || pass.front().alone) {
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
      const Wanted* const wanted = wanted_.find(name);
      if (wanted == nullptr) {
        continue;
      }
      const auto is_made = [&made](const ValueName& missing) {
        return made.contains(missing);
      };
      for (const std::uint64_t id : wanted->waiters) {
        const Waiting* const found = waiting_.find(id);
        if (found != nullptr && !found->task.task.op->is_heavy() &&
            !found->task.alone &&
            std::ranges::all_of(found->missing, is_made)) {
          pass.push_back(take_whole(id));
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
      std::ranges::move(fetched.mapped(), std::back_inserter(pass.sources));
    }
  }
  ++num_running_;
  return pass;
}

std::vector<WorkerCommand> WorkerPolicy::handle(WorkDone& done) {
  --num_running_;
  std::ranges::for_each(done.result.grants,
                        [this](std::uint64_t id) { let_go(id); });
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

#include "actors/worker_policy.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace troupe::actors {

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
    if (!held_.insert(id).second) {
      continue;
    }
    Waiting waiting{std::move(task), {}};
    const auto lacks = [&waiting](const ValueName& name) {
      const auto& work = waiting.task;
      return name.sample_index == work.sample_index && name.run == work.run &&
             std::ranges::find(work.task.inputs, name.slot) !=
                 work.task.inputs.end();
    };
    // Whoever waits for a value first asks for it.
    const auto wait_for = [&](const ValueName& name) {
      waiting.missing.insert(name);
      std::vector<std::uint64_t>& waiters = wanted_[name];
      waiters.push_back(id);
      return waiters.size() == 1;
    };
    for (const RemoteValue& value : grant.remote_inputs) {
      if (lacks(value.name)) {
        fetched_[id].push_back(value);
        if (wait_for(value.name)) {
          fetch.values.push_back(value);
        }
      }
    }
    for (const ValueName& name : grant.coming_inputs) {
      if (lacks(name) && wait_for(name)) {
        await.names.push_back(name);
      }
    }
    if (waiting.missing.empty()) {
      ready_.push(std::move(waiting.task));
    } else {
      waiting_.emplace(id, std::move(waiting));
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

std::vector<std::uint64_t> WorkerPolicy::take_waiters(const ValueName& name) {
  auto node = wanted_.extract(name);
  return node.empty() ? std::vector<std::uint64_t>{} : std::move(node.mapped());
}

std::vector<WorkerCommand> WorkerPolicy::handle(InputHere& here) {
  for (const std::uint64_t id : take_waiters(here.name)) {
    const auto found = waiting_.find(id);
    if (found == waiting_.end()) {
      continue;  // dropped
    }
    found->second.missing.erase(here.name);
    if (found->second.missing.empty()) {
      ready_.push(std::move(found->second.task));
      waiting_.erase(found);
    }
  }
  return {};
}

std::vector<WorkerCommand> WorkerPolicy::handle(InputGone& gone) {
  GrantResult result;
  for (const std::uint64_t id : take_waiters(gone.value.name)) {
    if (waiting_.erase(id) > 0) {
      held_.erase(id);
      fetched_.erase(id);
      result.grants.push_back(id);
    }
  }
  if (result.grants.empty() || stopped_) {
    return {};
  }
  result.worker = worker_;
  result.epoch = epoch_;
  result.gone = {gone.value};
  return {std::move(result)};
}

std::vector<WorkerCommand> WorkerPolicy::handle(DropRuns& drop) {
  const std::uint32_t last =
      drop.last_run.value_or(std::numeric_limits<std::uint32_t>::max());
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const SampleTask& task = it->second.task;
    if (task.sample_index == drop.sample_index && task.run <= last) {
      held_.erase(it->first);
      fetched_.erase(it->first);
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

std::optional<Grant> WorkerPolicy::next() {
  if (!has_next()) {
    return std::nullopt;
  }
  Grant pass;
  pass.worker = worker_;
  pass.epoch = epoch_;
  pass.tasks = ready_.next(max_rows_);
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
  const bool waits = num_running_ == 0 && ready_.empty() && !waiting_.empty();
  return {WorkerBeat{worker_, epoch_, asked.ticks, waits}};
}

}  // namespace troupe::actors

#include "actors/worker_policy.h"

#include <algorithm>
#include <utility>

namespace troupe::actors {

std::vector<WorkerCommand> WorkerPolicy::on(const WorkerEvent& event) {
  return std::visit([this](const auto& e) { return handle(e); }, event);
}

std::vector<WorkerCommand> WorkerPolicy::handle(const Grant& grant) {
  const bool is_ours = grant.worker == worker_ && grant.epoch == epoch_;
  if (stopped_ || !is_ours || held_.contains(grant.id) ||
      waiting_.contains(grant.id)) {
    return {};
  }
  std::vector<WorkerCommand> commands;
  if (!grant.frees.empty()) {
    commands.push_back(FreeOwn{grant.frees});
  }
  if (grant.remote_inputs.empty()) {
    held_.insert(grant.id);
    commands.push_back(grant);
  } else {
    waiting_.emplace(grant.id, grant);
    commands.push_back(FetchInputs{grant.id, grant.remote_inputs});
  }
  return commands;
}

std::vector<WorkerCommand> WorkerPolicy::handle(const InputsFetched& fetched) {
  auto waiting = waiting_.extract(fetched.grant);
  if (waiting.empty() || stopped_) {
    return {};
  }
  if (fetched.gone.empty()) {
    held_.insert(fetched.grant);
    return {std::move(waiting.mapped())};
  }
  GrantResult result;
  result.id = fetched.grant;
  result.worker = worker_;
  result.epoch = epoch_;
  result.gone = fetched.gone;
  return {std::move(result)};
}

std::vector<WorkerCommand> WorkerPolicy::handle(const WorkDone& done) {
  if (held_.erase(done.result.id) == 0) {
    return {};
  }
  GrantResult result = done.result;
  // What was queued behind another grant began to run at the end of that.
  const TimePoint end = result.span.start + result.span.duration;
  result.span.start = std::clamp(last_end_, result.span.start, end);
  result.span.duration = end - result.span.start;
  last_end_ = end;
  return {std::move(result)};
}

std::vector<WorkerCommand> WorkerPolicy::handle(const StopWork&) {
  stopped_ = true;
  return {InterruptWork{}};
}

std::vector<WorkerCommand> WorkerPolicy::handle(const BeatAsked& asked) {
  const bool waits = held_.empty() && !waiting_.empty();
  return {WorkerBeat{worker_, epoch_, asked.ticks, waits}};
}

}  // namespace troupe::actors

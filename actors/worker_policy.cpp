#include "actors/worker_policy.h"

#include <algorithm>
#include <utility>

namespace troupe::actors {

std::vector<WorkerCommand> WorkerPolicy::on(const WorkerEvent& event) {
  return std::visit([this](const auto& e) { return handle(e); }, event);
}

std::vector<WorkerCommand> WorkerPolicy::handle(const Grant& grant) {
  const bool is_ours = grant.worker == worker_ && grant.epoch == epoch_;
  if (stopped_ || !is_ours || !held_.insert(grant.id).second) {
    return {};
  }
  return {grant};
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
  return {WorkerBeat{worker_, epoch_, asked.ticks}};
}

}  // namespace troupe::actors

#include "actors/supervisor_policy.h"

#include <algorithm>
#include <cmath>

namespace troupe::actors {
namespace {

bool can_be_mended(Errc code) {
  return code != Errc::device_lost && code != Errc::unsupported;
}

}  // namespace

SupervisorPolicy::SupervisorPolicy(int num_children, RestartOptions options)
    : options_(options), children_(static_cast<std::size_t>(num_children)) {}

std::vector<SupervisorCommand> SupervisorPolicy::on(
    const SupervisorEvent& event, TimePoint now) {
  if (const auto* down = std::get_if<ChildDown>(&event)) {
    return child_down(*down, now);
  }
  return start(std::get<StartDue>(event).child);
}

std::vector<SupervisorCommand> SupervisorPolicy::start(int index) {
  Child& child = children_[static_cast<std::size_t>(index)];
  if (child.running) {
    return {};
  }
  child.running = true;
  return {StartChild{index, ++child.epoch}};
}

std::vector<SupervisorCommand> SupervisorPolicy::child_down(
    const ChildDown& event, TimePoint now) {
  Child& child = children_[static_cast<std::size_t>(event.child)];
  if (!child.running || child.epoch != event.epoch) {
    return {};
  }
  child.running = false;
  std::vector<SupervisorCommand> commands;
  while (!child.restarts.empty() &&
         now - child.restarts.front() > options_.window) {
    child.restarts.pop_front();
  }
  if (can_be_mended(event.cause.code) &&
      static_cast<int>(child.restarts.size()) < options_.max_restarts) {
    commands.emplace_back(WorkerDown{event.child, event.epoch});
    const double growth = std::pow(options_.factor, child.restarts.size());
    const auto delay = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(options_.first_delay) * growth);
    child.restarts.push_back(now);
    commands.push_back(
        WaitBeforeStart{event.child, std::min(delay, options_.longest_delay)});
    return commands;
  }
  commands.emplace_back(WorkerDown{event.child, event.epoch, event.cause});
  return commands;
}

}  // namespace troupe::actors

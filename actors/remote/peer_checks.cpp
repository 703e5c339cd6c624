#include "actors/remote/peer_checks.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "kernels/core/error.h"
#include "kernels/core/shape.h"

namespace troupe::actors {
namespace {

using samplers::Task;

/// Far more than a pass takes, and far less than a clock can count.
constexpr auto kLongestPass = std::chrono::hours(24 * 30);

void check_that(bool holds, const std::string& otherwise) {
  require(holds, Errc::corrupt_file, "message", otherwise);
}

/// Errors: Errc::corrupt_file unless begin <= number < end.
template <typename Number>
void check_range(const char* what, Number number, Number begin, Number end) {
  check_that(number >= begin && number < end,
             std::string(what) + ": got " + std::to_string(number) +
                 ", expected at least " + std::to_string(begin) +
                 " and less than " + std::to_string(end));
}

int num_calls(const JobRecord& job) {
  return static_cast<int>(job.schedule.timesteps.size());
}

void check_task(const SampleTask& work, const JobRecord& job) {
  const Task& task = work.task;
  const int calls = num_calls(job);
  const int segments = static_cast<int>(job.cuts.size()) - 1;
  check_range("a task of a sample", work.sample_index, job.begin, job.end);
  check_range("a task from a call", task.from, 0, calls);
  check_range("a task to a call", task.to, 0, calls + 1);
  check_range("a task with the timestep of a call", task.timestep_call, 0,
              calls);
  check_range("a task of a segment", task.segment, 0, std::max(segments, 1));
  check_that(samplers::is_whole(task),
             "a task with slots or coefficients that its op has not");
  if (task.op->work == samplers::Work::segment) {
    const auto has_skips = [&](bool are_there, const samplers::Slots& slots) {
      check_that(!are_there || slots.size() == 2, "a task without its skips");
    };
    has_skips(samplers::takes_skips(job.method, task.segment), task.inputs);
    has_skips(samplers::keeps_skips(job.method, task.segment), task.outputs);
  }
  if (samplers::step_of(task)) {
    check_that(task.to > task.from, "a step that leads to no later call");
  }
  if (task.op->outputs.number.most == samplers::kOneForEachCall) {
    check_range("a task's outputs", task.outputs.size(), std::size_t{1},
                static_cast<std::size_t>(calls - task.from) + 1);
  }
}

}  // namespace

void check_result(const GrantResult& result) {
  check_that(result.span.duration >= Duration{} &&
                 result.span.duration <= kLongestPass,
             "a pass that took longer than any can");
}

void check_grant(const Grant& grant, const JobRecord& job) {
  for (const SampleTask& work : grant.tasks) {
    check_task(work, job);
  }
}

}  // namespace troupe::actors

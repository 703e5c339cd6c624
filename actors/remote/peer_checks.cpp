#include "actors/remote/peer_checks.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "kernels/core/error.h"
#include "kernels/core/shape.h"

namespace troupe::actors {
namespace {

using samplers::Op;
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

/// `calls`: numbers of calls that it may name.
void check_look(const char* what, std::uint64_t sample_index, int call,
                const Tensor& latents, const JobRecord& job, int calls) {
  const std::string place = what;
  check_range((place + " of a sample").c_str(), sample_index, job.begin,
              job.end);
  check_range((place + " of a call").c_str(), call, 0, calls);
  check_that(latents.dtype() == DType::f32 &&
                 latents.shape() == Shape(job.latent_shape),
             place + ": latents of another shape or kind than the job's");
}

std::size_t least_inputs(const Task& task,
                         const samplers::MethodOptions& method) {
  switch (task.op) {
    case Op::sweep:
      return 4;
    case Op::combine:
      return task.outputs.size() == 2 ? 3 : 2;
    case Op::step:
      return 2;
    case Op::segment:
      return samplers::takes_skips(method, task.segment) ? 2 : 1;
    default:
      return 1;
  }
}

void check_task(const SampleTask& work, const JobRecord& job) {
  const Task& task = work.task;
  const int calls = num_calls(job);
  const int segments = static_cast<int>(job.cuts.size()) - 1;
  check_range("a task of a sample", work.sample_index, job.begin, job.end);
  check_range("a task from a call", task.from, 0,
              task.op == Op::decode ? calls + 1 : calls);
  check_range("a task to a call", task.to, 0, calls + 1);
  check_range("a task with the timestep of a call", task.timestep_call, 0,
              calls);
  check_range("a task of a segment", task.segment, 0, std::max(segments, 1));
  const std::size_t least_outputs =
      task.op == Op::segment && samplers::keeps_skips(job.method, task.segment)
          ? 2
          : 1;
  check_that(task.inputs.size() >= least_inputs(task, job.method) &&
                 task.outputs.size() >= least_outputs,
             "a task with too few slots");
  if (task.op == Op::sweep || samplers::step_of(task)) {
    check_that(task.to > task.from, "a step that leads to no later call");
  }
  if (task.op == Op::sweep) {
    check_range("a sweep's points", task.outputs.size(), std::size_t{1},
                static_cast<std::size_t>(calls - task.from) + 1);
  }
}

}  // namespace

void check_result(const GrantResult& result, const Offer& offer) {
  const JobRecord& job = offer.job;
  check_that(result.span.duration >= Duration{} &&
                 result.span.duration <= kLongestPass,
             "a pass that took longer than any can");
  check_that(offer.previews || result.previews.empty(),
             "previews, which the job does not show");
  check_that(offer.trajectory || result.points.empty(),
             "points of a trajectory, which the job does not keep");
  for (const Preview& preview : result.previews) {
    check_look("a preview", preview.sample_index, preview.call, preview.latents,
               job, num_calls(job));
  }
  for (const TrajectoryPoint& point : result.points) {
    check_look("a point", point.sample_index, point.calls, point.latents, job,
               num_calls(job) + 1);
  }
}

void check_grant(const Grant& grant, const JobRecord& job) {
  for (const SampleTask& work : grant.tasks) {
    check_task(work, job);
  }
}

}  // namespace troupe::actors

#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "actors/grant.h"
#include "actors/job_parts.h"
#include "actors/sample_store.h"
#include "kernels/core/clock.h"
#include "kernels/core/context.h"
#include "samplers/parallel/task_runner.h"

namespace troupe::actors {

/// What all workers of a process share: weights (behind the parts' evaluator),
/// schedule and samples. Thread: any.
struct JobContext {
  explicit JobContext(JobParts job_parts,
                      std::shared_ptr<const Clock> job_clock,
                      bool with_previews = false, bool with_trajectory = false)
      : parts(std::move(job_parts)),
        runner(*parts.schedule, *parts.evaluator, *parts.noise, parts.method),
        samples(*parts.schedule, *parts.noise, parts.evaluator->latent_shape()),
        clock(std::move(job_clock)),
        previews(with_previews),
        trajectory(with_trajectory) {}

  const JobParts parts;
  samplers::TaskRunner runner;
  SampleStore samples;
  std::shared_ptr<const Clock> clock;
  bool previews;    ///< whether results carry previews
  bool trajectory;  ///< whether results carry latents after each call
};

/// The work of a grant: queued on ctx's device by the constructor (on the CPU
/// done), waited for by `finish`. Others may be queued between the two. Nothing
/// throws: what goes wrong stands in the result; where a GPU is at fault its
/// place is that GPU.
/// Thread: ctx's, but for the destructor; ctx and job outlive it.
class Execution {
 public:
  Execution(const Grant& grant, ExecContext& ctx, JobContext& job) noexcept;
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  /// Whether `finish` need not wait.
  [[nodiscard]] bool is_done() noexcept;
  /// Call once.
  [[nodiscard]] GrantResult finish() noexcept;

 private:
  void fail() noexcept;

  ExecContext& ctx_;
  JobContext& job_;
  std::vector<std::shared_ptr<samplers::SlotTable>> tables_;
  std::unique_ptr<samplers::QueuedTasks> queued_;
  GrantResult result_;
};

}  // namespace troupe::actors

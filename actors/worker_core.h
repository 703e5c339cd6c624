#pragma once

#include <memory>
#include <vector>

#include "actors/grant.h"
#include "actors/sample_store.h"
#include "kernels/core/clock.h"
#include "kernels/core/context.h"
#include "samplers/parallel/task_runner.h"

namespace troupe::actors {

/// What all workers of a node share: weights (behind the runner's evaluator),
/// schedule and samples. Outlives every worker.
struct JobContext {
  const samplers::Schedule& schedule;
  samplers::TaskRunner& runner;
  SampleStore& samples;
  const Clock& clock;
  bool previews = false;    ///< whether results carry previews
  bool trajectory = false;  ///< whether results carry latents after each call
};

/// The work of a grant: queued on ctx's device by the constructor (on the CPU
/// done), waited for by `finish`. Others may be queued between the two. Nothing
/// throws: what goes wrong stands in the result; where a GPU is at fault its
/// place is that GPU.
/// Thread: ctx's, but for the destructor; ctx and job outlive it.
class Execution {
 public:
  Execution(const Grant& grant, ExecContext& ctx,
            const JobContext& job) noexcept;
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
  const JobContext& job_;
  std::vector<std::shared_ptr<samplers::SlotTable>> tables_;
  std::unique_ptr<samplers::QueuedTasks> queued_;
  GrantResult result_;
};

}  // namespace troupe::actors

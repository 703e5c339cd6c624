#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "actors/grant.h"
#include "actors/job_parts.h"
#include "actors/value_store.h"
#include "kernels/core/clock.h"
#include "kernels/core/context.h"
#include "samplers/parallel/task_runner.h"

namespace troupe::actors {

/// What a job is computed with: weights (behind the parts' evaluator) and
/// schedule. All workers share it. Thread: any.
struct JobContext {
  explicit JobContext(JobParts job_parts,
                      std::shared_ptr<const Clock> job_clock,
                      bool with_trace = false)
      : parts(std::move(job_parts)),
        runner(*parts.schedule, *parts.evaluator, *parts.noise, parts.method),
        clock(std::move(job_clock)),
        trace(with_trace) {}

  const JobParts parts;
  samplers::TaskRunner runner;
  std::shared_ptr<const Clock> clock;
  bool trace;  ///< whether results say what was made and read
};

/// The values of one process. It keeps references to parts of the job.
[[nodiscard]] std::shared_ptr<ValueStore> make_store(
    const JobContext& job, std::shared_ptr<ValueChannel> channel = nullptr);

/// The work of a grant. The constructor queues it on ctx's device (on the CPU
/// it does it), and `finish` waits for it. Others can be queued between the
/// two. Nothing throws: what goes wrong stands in the result. If a GPU is at
/// fault, the failure's place is that GPU.
/// Thread: ctx's, but for the destructor; ctx, job and store outlive it.
class Execution {
 public:
  Execution(const Grant& grant, ExecContext& ctx, JobContext& job,
            ValueStore& store) noexcept;
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  /// Whether `finish` need not wait.
  [[nodiscard]] bool is_done() noexcept;
  /// Call once.
  [[nodiscard]] GrantResult finish() noexcept;

 private:
  /// Queues the tasks, again if a device beside ctx's was lost. Errors: those
  /// of TaskRunner::queue.
  [[nodiscard]] std::unique_ptr<samplers::QueuedTasks> queue(
      const std::vector<samplers::BoundTask>& tasks);
  void fail() noexcept;
  void note_end() noexcept;
  void note_reads(const Grant& grant, const SampleTask& work,
                  const samplers::SlotTable& slots);
  /// What the tasks write, before they have.
  [[nodiscard]] std::vector<HeldValue> made_values() const;

  ExecContext& ctx_;
  JobContext& job_;
  std::vector<std::shared_ptr<samplers::SlotTable>> tables_;
  std::unique_ptr<samplers::QueuedTasks> queued_;
  std::vector<std::uint32_t> runs_;  ///< of the tasks' samples
  GrantResult result_;
};

}  // namespace troupe::actors

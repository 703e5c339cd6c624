#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "actors/value_store.h"
#include "actors/worker_core.h"
#include "actors/worker_policy.h"
#include "kernels/core/context.h"
#include "kernels/core/executor.h"

namespace troupe::actors {

/// A worker cannot go on.
struct WorkerFault {
  Failure cause;
};

/// The parts of a worker, beside its actor.
struct FiringSpec {
  int worker = 0;
  std::uint32_t epoch = 0;
  std::shared_ptr<ExecContext> ctx;
  std::shared_ptr<JobContext> job;
  std::shared_ptr<ValueStore> store;  ///< of its process
  int process = 0;
  Executor* executor = nullptr;  ///< its compute thread; see close()

  // Called from any thread.
  std::function<void(GrantResult)> answer;
  std::function<void(WorkerBeat)> beat;
  std::function<void(Failure)> fail;  ///< the worker cannot go on
};

/// The worker's policy behind one lock, between its actor, its process's values
/// and its executor. The executor takes its next pass itself: a task whose
/// last input has arrived fires without an actor in between.
/// Thread: any.
class Firing : public std::enable_shared_from_this<Firing> {
 public:
  explicit Firing(FiringSpec spec);

  /// Errors of the policy and the store go to `fail`.
  void on(WorkerEvent event) noexcept;
  /// No pass begins or is posted any more. If the running pass is stopped, it
  /// is not answered: the answer would end the job, and another worker can do
  /// the task. To be called before ctx is asked to stop and the executor goes.
  void close() noexcept;

 private:
  void perform(FreeOwn& free);
  void perform(FetchInputs& fetch);
  void perform(GrantResult& result);
  void perform(WorkerBeat& beat);
  void perform(InterruptWork& interrupt);
  void post_next();
  void run_next() noexcept;

  FiringSpec spec_;
  std::mutex mutex_;
  WorkerPolicy policy_;
  bool is_posted_ = false;  ///< run_next, and it has not begun
  bool is_closed_ = false;
};

}  // namespace troupe::actors

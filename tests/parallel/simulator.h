#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "samplers/parallel/method.h"
#include "samplers/parallel/task_runner.h"

namespace troupe::samplers::testing {

/// Runs many samples over virtual workers in an order that a seed decides:
/// every choice of what to run or deliver next is random, tasks run twice on
/// different workers, and results come twice, late and out of order.
class Simulator {
 public:
  Simulator(TaskRunner& runner, ExecContext& ctx, int num_workers,
            std::uint64_t seed);

  void add(std::uint64_t sample_index, std::unique_ptr<Method> method,
           SolverState start);
  /// A worker that takes no work until nothing else can go on.
  void freeze(int worker) { frozen_ = worker; }
  /// Errors: Errc::internal on a deadlock.
  void run();

  [[nodiscard]] const Method& method(std::size_t i) const {
    return *samples_[i].method;
  }
  [[nodiscard]] Tensor latents(std::size_t i) const;
  [[nodiscard]] std::size_t dropped() const { return dropped_; }
  [[nodiscard]] std::size_t slots_left(std::size_t i) const {
    return samples_[i].slots->size();
  }
  [[nodiscard]] std::size_t most_slots() const { return most_slots_; }

 private:
  struct Sample {
    std::uint64_t index;
    std::unique_ptr<Method> method;
    std::unique_ptr<SlotTable> slots;
  };
  struct Message {
    std::size_t sample;
    TaskResult result;
  };

  [[nodiscard]] std::size_t below(std::size_t bound);
  [[nodiscard]] bool is_done() const;
  void hand_out(std::size_t sample);
  void place(std::size_t sample, const Task& task);
  bool work(std::size_t worker);
  void deliver();

  TaskRunner& runner_;
  ExecContext& ctx_;
  std::mt19937_64 random_;
  std::vector<std::vector<BoundTask>> workers_;  ///< what each has to do
  std::vector<Sample> samples_;
  std::vector<Message> in_flight_;
  int frozen_ = -1;
  std::size_t dropped_ = 0;
  std::size_t most_slots_ = 0;
};

/// Virtual time that methods take when each part is one worker and a task takes
/// `cost` of it. No arithmetic is done; sweeps are not supported.
[[nodiscard]] std::int64_t makespan(
    const std::vector<Method*>& methods,
    const std::function<std::int64_t(const Task&)>& cost);

}  // namespace troupe::samplers::testing

#pragma once

#include <string>
#include <vector>

#include "samplers/parallel/marked_graph.h"
#include "samplers/parallel/method.h"
#include "samplers/parallel/task_book.h"

namespace troupe::samplers {

/// A stale pipeline with deterministic ages: runs the firings of a marked
/// graph, each as soon as what it reads is there. A late worker stalls its
/// readers; nothing older is ever read instead.
///
/// Steps are counted in model calls, so every solver can be carried; both calls
/// of a Heun step are stale alike.
class Stale final : public Method {
 public:
  Stale(const MethodOptions& options, int num_calls);

  [[nodiscard]] std::vector<Task> ready() override { return book_.take(); }
  bool apply(const TaskResult& result) override;
  [[nodiscard]] bool done() const override { return call_ == num_calls_; }
  [[nodiscard]] Progress progress() const override;
  [[nodiscard]] Slot result_slot() const override { return state_; }
  [[nodiscard]] std::string snapshot() const override;
  void restore(const std::string& bytes) override;

  [[nodiscard]] const MarkedGraph& graph() const { return graph_; }
  [[nodiscard]] const std::vector<Firing>& firings() const { return firings_; }

 private:
  /// What is left to do around a firing. Firing i is task i + 1, and writes
  /// slot i + 1.
  struct Status {
    std::vector<int> readers;
    int inputs_missing = 0;
    int readers_left = 0;
    /// Segment runs that must happen one after the other until it is done: each
    /// reads the one before, or shares its part.
    int depth = 0;
    bool done = false;
  };

  [[nodiscard]] Status& status(int firing);
  [[nodiscard]] static Slot slot_of(int firing);
  [[nodiscard]] int segments() const;
  void connect();
  void issue(int firing);
  void finish(int firing);

  int num_calls_;
  int num_segments_;
  MarkedGraph graph_;
  std::vector<Firing> firings_;
  std::vector<Status> status_;
  int initial_readers_left_ = 0;
  int call_ = 0;
  Slot state_ = kInitialSlot;
  std::int64_t segments_run_ = 0;
  int depth_ = 0;  ///< of all that is done
  TaskBook book_;
};

}  // namespace troupe::samplers

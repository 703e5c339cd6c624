#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "kernels/core/context.h"
#include "kernels/cuda/backend.cuh"
#include "kernels/cuda/dnn_graph.cuh"

namespace troupe::kernels::cuda {

/// cuDNN's handle of one context, on its stream. Made by Backend::state, so the
/// first use must not be recorded.
class DnnHandle {
 public:
  explicit DnnHandle(Backend& backend);
  ~DnnHandle();
  DnnHandle(const DnnHandle&) = delete;
  DnnHandle& operator=(const DnnHandle&) = delete;

  [[nodiscard]] DnnTarget target() const { return {dnn_, handle_}; }

 private:
  const Dnn& dnn_;
  cudnnHandle_t handle_ = nullptr;
};

/// The memory that a tensor of a plan is bound to.
struct DnnOperand {
  enum class Role : std::uint8_t {
    input,   ///< `elements` per item, one item after the other
    shared,  ///< `elements`, the same for all items
    output,  ///< `elements` per item, one item after the other
    number   ///< one f32 on the host
  };
  std::int64_t id = 0;
  Role role = Role::input;
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  /// Of the first item. Nothing is written through an input.
  std::byte* address = nullptr;
};

/// A number for bit checks, uniform in [−2, 2): a function of index and seed.
[[nodiscard]] float check_number(std::int64_t index, std::int64_t seed);

/// The plans of one problem, for every number of items.
///
/// In batch-invariant mode the engine is chosen for one item. A batch is queued
/// item by item, or as one graph on the same engine if a check on this device
/// has shown that both give the same bytes. The check runs once per number of
/// items, with generated numbers, and never while work is recorded: a recording
/// of a batch that was not checked before queues item by item. In free mode the
/// engine is chosen for the whole batch.
/// Thread: as Backend.
class DnnPlans {
 public:
  using GraphOf = std::function<DnnGraph(std::int64_t items)>;

  DnnPlans(GraphOf graph_of, const DnnRules& rules)
      : graph_of_(std::move(graph_of)), rules_(rules) {}

  /// Queues the problem for `items` items. Returns false and queues nothing
  /// when cuDNN has no engine for it: see `refusal`. The first call for a
  /// number of items makes plans, which takes time, and waits for the queue.
  /// Errors: Errc::device_full, Errc::device_lost, Errc::internal.
  [[nodiscard]] bool run(ExecContext& ctx, std::int64_t items,
                         std::span<const DnnOperand> operands);
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  /// The engine for one item; null where cuDNN has none. Lives as long as this.
  [[nodiscard]] const DnnEngine* engine();

 private:
  [[nodiscard]] std::optional<DnnPlan> find(std::int64_t items,
                                            const DnnRules& rules);
  /// The plan of one item, or null where cuDNN has none.
  [[nodiscard]] const DnnPlan* item_plan();
  /// The plan for all items at once, if it may be used.
  [[nodiscard]] const DnnPlan* together(ExecContext& ctx, std::int64_t items,
                                        std::span<const DnnOperand> operands);
  [[nodiscard]] bool bytes_agree(ExecContext& ctx, const DnnPlan& plan,
                                 std::int64_t items,
                                 std::span<const DnnOperand> operands);
  void queue_one_by_one(ExecContext& ctx, std::int64_t items,
                        std::span<const DnnOperand> operands);

  GraphOf graph_of_;  ///< holds the handle, which must outlive the plans
  DnnRules rules_;
  /// By number of items. Without a plan: refused, or (more than one item in
  /// batch-invariant mode) not the same bytes.
  std::map<std::int64_t, std::optional<DnnPlan>> plans_;
  std::string refusal_;
};

}  // namespace troupe::kernels::cuda

#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/cuda/dnn_batch.cuh"

namespace troupe::kernels::cuda {

/// The plans of one operation of cuDNN in one context: of whole items, and of
/// shards, which are computed with the engine and knobs of their whole.
/// Thread: as Backend.
template <typename Problem>
class DnnShards {
 public:
  using GraphOf = DnnGraph (*)(const DnnTarget& target, const Problem& problem,
                               std::int64_t items);

  explicit DnnShards(GraphOf graph_of) : graph_of_(graph_of) {}

  [[nodiscard]] DnnPlans& of(Backend& backend, const Problem& problem,
                             const DnnRules& rules = {}) {
    const auto known = wholes_.find(problem);
    return known != wholes_.end()
               ? known->second
               : wholes_.try_emplace(problem, graphs(backend, problem), rules)
                     .first->second;
  }

  struct Shard {
    Shard(DnnPlans::GraphOf graph_of, const DnnRules& rules)
        : plans(std::move(graph_of), rules) {}
    DnnPlans plans;
    std::optional<bool> agrees;  ///< has the bytes of the whole; unset: unknown
  };

  /// The plans of a shard, or null where the library has none of the whole.
  /// `agrees(plans of the whole, plans of the shard)` compares bytes; it is
  /// called once, and again where it threw. The plans of a shard whose bytes
  /// differ are kept: unloading them needs a lock. Errors: Errc::unsupported
  /// where work is recorded and nothing was compared before.
  template <typename Agrees>
  [[nodiscard]] Shard* shard_of(Backend& backend, const Problem& whole,
                                const Problem& part, DnnRules rules,
                                std::string_view place, const Agrees& agrees) {
    DnnPlans& whole_plans = of(backend, whole, rules);
    rules.only = whole_plans.engine();
    if (rules.only == nullptr) {
      return nullptr;
    }
    Shard& shard =
        shards_
            .try_emplace(std::pair(whole, part), graphs(backend, part), rules)
            .first->second;
    if (!shard.agrees) {
      require(!backend.is_recording(), Errc::unsupported, place,
              "a shard was recorded before it was run once");
      shard.agrees = agrees(whole_plans, shard.plans);
    }
    return &shard;
  }

 private:
  [[nodiscard]] DnnPlans::GraphOf graphs(Backend& backend,
                                         const Problem& problem) const {
    return [handle = backend.shared_state<DnnHandle>(), problem,
            graph_of = graph_of_](std::int64_t items) {
      return graph_of(handle->target(), problem, items);
    };
  }

  GraphOf graph_of_;
  std::map<Problem, DnnPlans> wholes_;
  /// By the whole and the shard.
  std::map<std::pair<Problem, Problem>, Shard> shards_;
};

}  // namespace troupe::kernels::cuda

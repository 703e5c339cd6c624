#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/condition.h"

namespace troupe::actors {

/// What the branches of a job's samples are conditioned on. Sample i has
/// each[i modulo their number].
struct JobConditions {
  std::vector<models::Condition> each;
  /// Of guidance's other branch; unset: there is one branch.
  std::optional<models::Condition> unconditional;
  /// Of the weights that encoded prompts; 0: nothing was encoded.
  std::uint64_t encoders_hash = 0;
};

}  // namespace troupe::actors

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/condition.h"

namespace troupe::actors {

/// What the branches of a job's samples are conditioned on. Sample i has
/// each[i modulo their number].
struct JobConditions {
  std::vector<models::Condition> each;
  /// Of guidance's other branch; unset: there is one branch.
  std::optional<models::Condition> unconditional;
  /// The name of the execution class that encoded them, here or in another
  /// process; empty: none did.
  std::string encoder_class = {};
  double encode_seconds = 0;  ///< of it, not of waiting for another process
};

}  // namespace troupe::actors

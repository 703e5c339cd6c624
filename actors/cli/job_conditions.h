#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/core/device.h"
#include "kernels/core/dtype.h"
#include "models/condition.h"

namespace troupe::actors {

/// What encoded prompts, here or in another process.
struct EncodedBy {
  std::string execution_class;  ///< its name; empty: none were encoded
  DeviceKind device = DeviceKind::cpu;
  DType dtype = DType::f32;
};

/// What the branches of a job's samples are conditioned on. Sample i has
/// each[i modulo their number].
struct JobConditions {
  std::vector<models::Condition> each;
  /// Of guidance's other branch; unset: there is one branch.
  std::optional<models::Condition> unconditional;
  EncodedBy encoded_by = {};
  double encode_seconds = 0;  ///< of it, not of waiting for another process
};

}  // namespace troupe::actors

#pragma once

#include <string>
#include <vector>

#include "actors/condition_store.h"
#include "kernels/core/device.h"
#include "kernels/core/dtype.h"

namespace troupe::actors {

/// The class, device and dtype that encoded the prompts, in this or another
/// process.
struct EncodedBy {
  std::string execution_class;  ///< its name; empty: none were encoded
  DeviceKind device = DeviceKind::cpu;
  DType dtype = DType::f32;
};

/// The conditions of a job's branches. Sample i has number i, modulo how many
/// there are, which is none for a prompt that no drawn image shows.
struct JobConditions {
  std::vector<StoredCondition> each;
  /// Of guidance's other branch; none: there is one branch.
  std::vector<StoredCondition> unconditional;
  EncodedBy encoded_by = {};
  double encode_seconds = 0;  ///< of it, not of waiting for another process
};

}  // namespace troupe::actors

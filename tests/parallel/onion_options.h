#pragma once

#include "samplers/parallel/method.h"

namespace troupe::samplers {

/// A stale onion whose cuts all have this age.
inline MethodOptions stale_onion(int parts, int age = 1, int warmup = 1,
                                 int final_fresh = 0) {
  return {.kind = MethodKind::stale,
          .num_segments = parts,
          .cut = CutShape::onion,
          .age = age,
          .warmup_steps = warmup,
          .final_fresh_steps = final_fresh};
}

}  // namespace troupe::samplers

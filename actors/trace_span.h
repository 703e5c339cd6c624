#pragma once

#include <cstdint>

#include "kernels/core/clock.h"
#include "samplers/parallel/method.h"

namespace troupe::actors {

/// One stretch of work on one worker: what a trace draws as a bar.
struct TraceSpan {
  int worker = 0;
  samplers::Op op = samplers::Op::evaluate;
  std::uint64_t sample_index = 0;  ///< of the first row
  int rows = 1;                    ///< tasks that ran together
  int step = 0;                    ///< model-call index of the first row
  int segment = 0;
  TimePoint start;
  Duration duration{};
};

}  // namespace troupe::actors

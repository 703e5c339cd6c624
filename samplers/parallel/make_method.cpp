#include <cmath>
#include <memory>
#include <string>

#include "kernels/core/error.h"
#include "samplers/parallel/cfg.h"
#include "samplers/parallel/method.h"
#include "samplers/parallel/picard.h"
#include "samplers/parallel/pipeline.h"
#include "samplers/parallel/sequential.h"
#include "samplers/parallel/stale.h"

namespace troupe::samplers {
namespace {

void check_range(const char* name, int value, int low, int high,
                 const char* what) {
  if (value < low || value > high) {
    throw Error(Errc::invalid_argument, name,
                std::string(what) + ": got " + std::to_string(value) +
                    ", expected " + std::to_string(low) + " to " +
                    std::to_string(high));
  }
}

}  // namespace

std::unique_ptr<Method> make_method(const MethodOptions& options,
                                    const Schedule& schedule) {
  const int calls = schedule.num_model_calls();
  switch (options.kind) {
    case MethodKind::sequential:
    case MethodKind::batch:
      return std::make_unique<Sequential>(options.kind, calls);
    case MethodKind::cfg:
      return std::make_unique<Cfg>(calls);
    case MethodKind::picard:
      check_range("window_size", options.window_size, 1, calls,
                  "a window is a number of model calls of this run");
      if (!std::isfinite(options.tolerance) || options.tolerance < 0) {
        throw Error(Errc::invalid_argument, "tolerance",
                    "got " + std::to_string(options.tolerance) +
                        ", expected 0 (bit-equal to sequential) or more");
      }
      return std::make_unique<Picard>(options, calls);
    case MethodKind::pipeline:
      check_range("num_segments", options.num_segments, 1, 1 << 20,
                  "a pipeline has segments");
      return std::make_unique<Pipeline>(calls, options.num_segments);
    case MethodKind::stale:
      check_range("num_segments", options.num_segments, 1, 1 << 20,
                  "a pipeline has segments");
      check_range("warmup_steps", options.warmup_steps, 0, calls,
                  "counts model calls of this run");
      check_range("final_fresh_steps", options.final_fresh_steps, 0, calls,
                  "counts model calls of this run");
      return std::make_unique<Stale>(options, calls);
  }
  throw Error(Errc::internal, "method", "an unknown kind of method");
}

}  // namespace troupe::samplers

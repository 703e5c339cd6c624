#pragma once

#include <cstdint>
#include <optional>

#include "actors/grant.h"
#include "kernels/core/clock.h"
#include "kernels/core/device.h"
#include "samplers/parallel/method.h"

namespace troupe::actors {

enum class SampleStatus : std::uint8_t { unfinished, done, failed };

struct SampleReport {
  std::uint64_t sample_index = 0;
  SampleStatus status = SampleStatus::unfinished;
  samplers::Progress progress = {};
  std::optional<Failure> failure = {};
  /// Of the workers that computed all of it; see WorkerTraits.
  int execution_class = 0;
};

/// A device that fell out of a job, and why.
struct LostDevice {
  Device device;
  Failure cause;
};

struct JobProgress {
  std::uint64_t samples_total = 0;
  std::uint64_t samples_done = 0;
  std::uint64_t samples_failed = 0;
  std::int64_t calls_done = 0;  ///< over all samples, of calls_total
  std::int64_t calls_total = 0;
  /// What the blocks that ran since stand for, in calls; may be a fraction.
  double calls_under_way = 0;
  std::int64_t nfe = 0;
  std::int64_t rounds = 0;  ///< of the sample that needed most
};

}  // namespace troupe::actors

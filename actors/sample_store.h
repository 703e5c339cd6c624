#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "kernels/core/shape.h"
#include "samplers/noise_source.h"
#include "samplers/parallel/task_runner.h"
#include "samplers/schedule.h"

namespace troupe::actors {

/// The slot tables of the samples in flight: where in-process workers meet.
/// A table opens with the sample's initial state on the host, made by whoever
/// asks first; noise is a pure function, so it does not matter who. Other
/// values stay on the device of the worker that made them, but for latents at
/// the end of the run. A sample that begins anew gets another table: its runs
/// are numbered. Thread: any.
class SampleStore {
 public:
  /// Keeps references.
  SampleStore(const samplers::Schedule& schedule, samplers::NoiseSource& noise,
              const Shape& latent_shape);

  /// Forgets the table of an earlier run. Work that is late, of an earlier run
  /// than the newest, gets a table that nobody else sees.
  [[nodiscard]] std::shared_ptr<samplers::SlotTable> open(
      std::uint64_t sample_index, std::uint32_t run = 0);
  /// Forgets the sample. Work that still runs on it keeps its table alive; who
  /// opens it later, a grant that was queued when it ended, gets a table that
  /// nobody else sees.
  void close(std::uint64_t sample_index);
  /// Samples that are open.
  [[nodiscard]] std::size_t size() const;

 private:
  struct Entry {
    std::uint32_t run = 0;
    std::once_flag filled;
    samplers::SlotTable slots;
  };
  [[nodiscard]] bool is_closed(std::uint64_t sample_index) const;
  void note_closed(std::uint64_t sample_index);

  const samplers::Schedule& schedule_;
  samplers::NoiseSource& noise_;
  Shape latent_shape_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Entry>> entries_;
  /// Closed samples as ranges, begin to end: they close nearly in order, so
  /// there are few of them however long the job is.
  std::map<std::uint64_t, std::uint64_t> closed_;
};

}  // namespace troupe::actors

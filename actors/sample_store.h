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
/// A table opens with the sample's initial state, made by whoever asks first;
/// noise is a pure function, so it does not matter who.
/// Thread: any.
class SampleStore {
 public:
  /// Keeps references.
  SampleStore(const samplers::Schedule& schedule, samplers::NoiseSource& noise,
              const Shape& latent_shape);

  [[nodiscard]] std::shared_ptr<samplers::SlotTable> open(
      std::uint64_t sample_index);
  /// Forgets the sample. Work that still runs on it keeps its table alive.
  void close(std::uint64_t sample_index);
  [[nodiscard]] std::size_t size() const;

 private:
  struct Entry {
    std::once_flag filled;
    samplers::SlotTable slots;
  };
  const samplers::Schedule& schedule_;
  samplers::NoiseSource& noise_;
  Shape latent_shape_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Entry>> entries_;
};

}  // namespace troupe::actors

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "actors/grant.h"
#include "actors/host_reader.h"
#include "kernels/core/shape.h"
#include "kernels/core/value_channel.h"
#include "samplers/noise_source.h"
#include "samplers/parallel/slot_table.h"
#include "samplers/schedule.h"

namespace troupe::actors {

/// The values of a job that one process holds: outputs of its workers, and
/// inputs that were fetched. Values stay on the device of the worker that made
/// them, but for latents at the end of the run; fetched ones are on the host.
/// The initial state of a sample is made here when somebody first reads it:
/// noise is a pure function, so every process makes the same. Thread: any.
class ValueStore : public std::enable_shared_from_this<ValueStore> {
 public:
  /// Keeps references. Without a channel there is no other process.
  ValueStore(const samplers::Schedule& schedule, samplers::NoiseSource& noise,
             const Shape& latent_shape,
             std::shared_ptr<ValueChannel> channel = nullptr);

  /// The values of a run. Late work, of a run that is over, gets a table that
  /// nobody else sees.
  [[nodiscard]] std::shared_ptr<samplers::SlotTable> open(
      std::uint64_t sample_index, std::uint32_t run = 0);
  void free(const FreedSlots& freed);
  /// Forgets the runs of a sample up to this one. A pass that still uses such a
  /// run keeps the table of the run alive.
  void close(std::uint64_t sample_index, std::uint32_t run);
  /// Forgets the sample for good.
  void close(std::uint64_t sample_index);

  /// Waits for a value that a worker of this process will make. `then` is
  /// called once, perhaps before `await` returns, with whether it is here; if
  /// not, it was freed, or its run is over. It must not throw.
  void await(const ValueName& name, std::function<void(bool is_here)> then);
  /// Asks another process for a value, unless it is here. `then`: as above;
  /// false also means that the holder did not have the value.
  void fetch(const RemoteValue& value, std::function<void(bool is_here)> then);
  /// Asks for several. `then` is called once, when every question is answered,
  /// with those that are not here.
  void fetch(std::span<const RemoteValue> values,
             std::function<void(std::vector<RemoteValue> gone)> then);
  /// Answers another process with a copy on the host, when the value is here.
  /// Nothing if the value was freed, its run is over, or it cannot be read.
  void give(const ValueName& name, ValueChannel::Taker taker);
  /// The process has ended, with all its values: every waiting question gets
  /// none.
  void give_up();

  /// Samples with an open run.
  [[nodiscard]] std::size_t size() const;

 private:
  struct Entry {
    std::uint32_t run = 0;
    std::shared_ptr<samplers::SlotTable> slots;  ///< null: nothing yet
  };
  [[nodiscard]] samplers::SlotTable::Value initial(
      std::uint64_t sample_index) const;
  [[nodiscard]] std::shared_ptr<samplers::SlotTable> new_table(
      std::uint64_t sample_index);
  /// For late work.
  [[nodiscard]] std::shared_ptr<samplers::SlotTable> lost_table(
      std::uint64_t sample_index);
  [[nodiscard]] bool is_closed(std::uint64_t sample_index) const;
  void note_closed(std::uint64_t sample_index);

  const samplers::Schedule& schedule_;
  samplers::NoiseSource& noise_;
  Shape latent_shape_;
  std::shared_ptr<ValueChannel> channel_;
  /// Of who asks from elsewhere. Questions can outlive the store.
  std::shared_ptr<HostReader> reader_ = std::make_shared<HostReader>();
  mutable std::mutex mutex_;
  bool is_given_up_ = false;
  /// By sample: its newest run.
  std::map<std::uint64_t, Entry> entries_;
  /// Closed samples as ranges, begin to end. Samples close nearly in order, so
  /// there are few ranges however long the job is.
  std::map<std::uint64_t, std::uint64_t> closed_;
};

/// Answers questions for the values of a store, until that is gone: what a
/// channel asks. Thread: any.
[[nodiscard]] std::function<void(const ValueName&, ValueChannel::Taker)>
answers_of(std::weak_ptr<ValueStore> store);

/// Says in the log why a value cannot be copied: the exception that is being
/// handled. Thread: any.
void log_lost_value(samplers::Slot slot) noexcept;

}  // namespace troupe::actors

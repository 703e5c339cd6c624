#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/coordinator_events.h"
#include "actors/serial_runner.h"
#include "actors/value_store.h"

namespace troupe::actors {

/// Copies values to the host of the coordinator's process, and keeps those of
/// cuts. Fetching and copying happen beside the coordinator: on the threads of
/// the channel, and on one of its own.
/// Thread: one, except where said.
class CutKeeper {
 public:
  using Values = std::vector<samplers::SlotTable::Value>;

  /// `store`: of the coordinator's process.
  explicit CutKeeper(std::shared_ptr<ValueStore> store);

  /// Copies values of one run. `then` is called once, from any thread, with the
  /// copies in the order of `wanted`, or with the values that could not be
  /// fetched; it must not throw.
  void copy(std::vector<RemoteValue> wanted,
            std::function<void(Values, std::vector<RemoteValue> gone)> then);
  /// `then`: as above. If values are gone, nothing is kept.
  void take(const TakeCut& take,
            std::function<void(std::vector<RemoteValue> gone)> then);
  /// Puts the values of a cut that was taken whole into the store, under the
  /// names of the run.
  /// Errors: Errc::internal when there is no such cut.
  void restore(const RestoreCut& restore);
  /// The sample has ended.
  void drop(std::uint64_t sample_index);

 private:
  struct Kept {
    std::vector<samplers::Slot> slots;
    Values values;  ///< of them
  };
  /// What both threads see.
  struct Shelf {
    std::mutex mutex;
    /// By sample and number.
    std::map<std::uint64_t, std::map<std::uint64_t, Kept>> cuts;
  };

  std::shared_ptr<ValueStore> store_;
  std::shared_ptr<Shelf> shelf_ = std::make_shared<Shelf>();
  std::shared_ptr<HostReader> reader_ = std::make_shared<HostReader>();
  /// Ends first. Channels can still answer afterwards: they hold it weakly.
  std::shared_ptr<SerialRunner> copier_;
};

}  // namespace troupe::actors

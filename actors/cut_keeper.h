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

/// Keeps the values of cuts in the coordinator's process, on its host. Fetching
/// and copying happen beside the coordinator: on the threads of the channel,
/// and on one of its own.
/// Thread: one, except where said.
class CutKeeper {
 public:
  /// `store`: of the coordinator's process.
  explicit CutKeeper(std::shared_ptr<ValueStore> store);

  /// `then` is called once, from any thread, with the values that could not be
  /// fetched; it must not throw. If there are any, nothing is kept.
  void take(const TakeCut& take,
            std::function<void(std::vector<RemoteValue> gone)> then);
  /// Puts the values of a cut that was taken whole into the store, under the
  /// names of the run.
  /// Errors: Errc::internal when there is no such cut.
  void restore(const RestoreCut& restore);
  /// The sample has ended.
  void drop(std::uint64_t sample_index);

 private:
  using Values = std::map<samplers::Slot, samplers::SlotTable::Value>;
  /// What both threads see.
  struct Shelf {
    [[nodiscard]] std::vector<RemoteValue> keep(
        const TakeCut& take, const samplers::SlotTable& table);

    std::mutex mutex;
    HostReader reader;  ///< of the copier
    /// By sample and number.
    std::map<std::uint64_t, std::map<std::uint64_t, Values>> cuts;
  };

  std::shared_ptr<ValueStore> store_;
  std::shared_ptr<Shelf> shelf_ = std::make_shared<Shelf>();
  /// Ends first. Channels can still answer afterwards: they hold it weakly.
  std::shared_ptr<SerialRunner> copier_;
};

}  // namespace troupe::actors

#include "actors/cut_keeper.h"

#include <limits>
#include <optional>
#include <utility>

#include "actors/parcels.h"

namespace troupe::actors {
namespace {

using samplers::SlotTable;

/// Posting never waits: there are never more cuts under way than samples.
constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

/// Nothing if it is not there, or cannot be read.
std::optional<SlotTable::Value> on_host(const SlotTable& table,
                                        samplers::Slot slot,
                                        HostReader& reader) {
  try {
    const auto value = table.find(slot);
    return value ? unpack(pack(*value, reader)) : std::nullopt;
  } catch (...) {
    log_lost_value(slot);  // its device has failed, or there is no memory
    return std::nullopt;
  }
}

}  // namespace

CutKeeper::CutKeeper(std::shared_ptr<ValueStore> store)
    : store_(std::move(store)),
      copier_(std::make_shared<SerialRunner>(kAnyNumber)) {}

void CutKeeper::take(const TakeCut& take,
                     std::function<void(std::vector<RemoteValue>)> then) {
  {
    const std::lock_guard lock(shelf_->mutex);
    std::erase_if(shelf_->cuts[take.sample_index], [&take](const auto& entry) {
      return entry.first != take.last;
    });
  }
  std::vector<RemoteValue> remote;
  for (const RemoteValue& value : take.values) {
    if (value.process != kHomeProcess) {
      remote.push_back(value);
    }
  }
  const auto copy = [shelf = shelf_, wanted = take,
                     table = store_->open(take.sample_index, take.run),
                     then] { then(shelf->keep(wanted, *table)); };
  store_->fetch(remote, [copier = std::weak_ptr(copier_), copy,
                         then](std::vector<RemoteValue> gone) {
    const auto there = copier.lock();
    if (gone.empty() && there) {
      there->post(copy);
    } else {
      then(std::move(gone));
    }
  });
}

/// Returns the values that cannot be had.
std::vector<RemoteValue> CutKeeper::Shelf::keep(const TakeCut& take,
                                                const SlotTable& table) {
  Values values;
  std::vector<RemoteValue> gone;
  for (const RemoteValue& value : take.values) {
    if (auto held = on_host(table, value.name.slot, reader)) {
      values.emplace(value.name.slot, *std::move(held));
    } else {
      gone.push_back(value);
    }
  }
  if (gone.empty()) {
    const std::lock_guard lock(mutex);
    const auto sample = cuts.find(take.sample_index);
    if (sample != cuts.end()) {  // else it has ended meanwhile
      sample->second[take.number] = std::move(values);
    }
  }
  return gone;
}

void CutKeeper::restore(const RestoreCut& restore) {
  const std::lock_guard lock(shelf_->mutex);
  const auto& cuts = shelf_->cuts[restore.sample_index];
  const auto cut = cuts.find(restore.number);
  require(cut != cuts.end(), Errc::internal, "cut keeper",
          "a sample goes back to a cut that is not kept");
  const auto table = store_->open(restore.sample_index, restore.run);
  for (const auto& [slot, value] : cut->second) {
    table->put(slot, value);
  }
}

void CutKeeper::drop(std::uint64_t sample_index) {
  const std::lock_guard lock(shelf_->mutex);
  shelf_->cuts.erase(sample_index);
}

}  // namespace troupe::actors

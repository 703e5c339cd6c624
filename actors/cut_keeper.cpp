#include "actors/cut_keeper.h"

#include <limits>
#include <optional>
#include <utility>

#include "actors/parcels.h"

namespace troupe::actors {
namespace {

using samplers::SlotTable;

/// Posting never waits: the values of samples in flight bound what is posted.
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

void CutKeeper::copy(
    std::vector<RemoteValue> wanted,
    std::function<void(Values, std::vector<RemoteValue>)> then) {
  const ValueName& first = wanted.front().name;
  const auto table = store_->open(first.sample_index, first.run);
  std::vector<RemoteValue> remote;
  for (const RemoteValue& value : wanted) {
    if (value.process != kHomeProcess) {
      remote.push_back(value);
    }
  }
  const auto copy_all = [reader = reader_, wanted = std::move(wanted), table,
                         then] {
    Values values;
    std::vector<RemoteValue> gone;
    for (const RemoteValue& value : wanted) {
      if (auto held = on_host(*table, value.name.slot, *reader)) {
        values.push_back(*std::move(held));
      } else {
        gone.push_back(value);
      }
    }
    then(std::move(values), std::move(gone));
  };
  store_->fetch(remote, [copier = std::weak_ptr(copier_), copy_all,
                         then](std::vector<RemoteValue> gone) {
    const auto there = copier.lock();
    if (gone.empty() && there) {
      there->post(copy_all);
    } else {
      then({}, std::move(gone));
    }
  });
}

void CutKeeper::take(const TakeCut& take,
                     std::function<void(std::vector<RemoteValue>)> then) {
  {
    const std::lock_guard lock(shelf_->mutex);
    std::erase_if(shelf_->cuts[take.sample_index], [&take](const auto& entry) {
      return entry.first != take.last;
    });
  }
  copy(take.values,
       [shelf = shelf_, index = take.sample_index, number = take.number,
        slots = take.cut.slots,
        then = std::move(then)](Values values, std::vector<RemoteValue> gone) {
         if (gone.empty()) {
           const std::lock_guard lock(shelf->mutex);
           const auto sample = shelf->cuts.find(index);
           if (sample != shelf->cuts.end()) {  // else it has ended meanwhile
             sample->second[number] = {slots, std::move(values)};
           }
         }
         then(std::move(gone));
       });
}

void CutKeeper::restore(const RestoreCut& restore) {
  const std::lock_guard lock(shelf_->mutex);
  const auto& cuts = shelf_->cuts[restore.sample_index];
  const auto cut = cuts.find(restore.number);
  require(cut != cuts.end(), Errc::internal, "cut keeper",
          "a sample goes back to a cut that is not kept");
  const auto table = store_->open(restore.sample_index, restore.run);
  const auto& [slots, values] = cut->second;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    table->put(slots[i], values[i]);
  }
}

void CutKeeper::drop(std::uint64_t sample_index) {
  const std::lock_guard lock(shelf_->mutex);
  shelf_->cuts.erase(sample_index);
}

}  // namespace troupe::actors

#include "actors/value_store.h"

#include <iterator>
#include <string>
#include <utility>

#include "actors/parcels.h"
#include "kernels/core/context.h"
#include "kernels/core/log.h"
#include "samplers/solver.h"

namespace troupe::actors {

using samplers::SlotTable;

ValueStore::ValueStore(const samplers::Schedule& schedule,
                       samplers::NoiseSource& noise, const Shape& latent_shape,
                       std::shared_ptr<ValueChannel> channel)
    : schedule_(schedule),
      noise_(noise),
      latent_shape_(latent_shape),
      channel_(std::move(channel)) {}

SlotTable::Value ValueStore::initial(std::uint64_t sample_index) const {
  Tensor unit(latent_shape_, DType::f32);
  noise_.initial(sample_index, unit);
  ExecContext host;
  return samplers::initial_state(host, schedule_, unit);
}

/// Tables are used while somebody holds the store.
std::shared_ptr<SlotTable> ValueStore::new_table(std::uint64_t sample_index) {
  return std::make_shared<SlotTable>(
      [this, sample_index] { return initial(sample_index); });
}

std::shared_ptr<SlotTable> ValueStore::lost_table(std::uint64_t sample_index) {
  auto table = new_table(sample_index);
  table->give_up();
  return table;
}

std::shared_ptr<SlotTable> ValueStore::open(std::uint64_t sample_index,
                                            std::uint32_t run) {
  std::shared_ptr<SlotTable> earlier;  // given up without the lock
  std::shared_ptr<SlotTable> slots;
  {
    const std::lock_guard lock(mutex_);
    if (is_given_up_ || is_closed(sample_index)) {
      return lost_table(sample_index);
    }
    Entry& entry = entries_[sample_index];
    if (run < entry.run) {
      return lost_table(sample_index);
    }
    if (run > entry.run) {
      earlier = std::exchange(entry.slots, nullptr);
      entry.run = run;
    }
    if (!entry.slots) {
      entry.slots = new_table(sample_index);
    }
    slots = entry.slots;
  }
  if (earlier) {
    earlier->give_up();
  }
  return slots;
}

void ValueStore::free(const FreedSlots& freed) {
  open(freed.sample_index, freed.run)->erase(freed.slots);
}

void ValueStore::close(std::uint64_t sample_index, std::uint32_t run) {
  std::shared_ptr<SlotTable> earlier;  // given up without the lock
  {
    const std::lock_guard lock(mutex_);
    if (is_closed(sample_index)) {
      return;
    }
    Entry& entry = entries_[sample_index];
    if (entry.run <= run) {
      entry.run = run + 1;
      earlier = std::exchange(entry.slots, nullptr);
    }
  }
  if (earlier) {
    earlier->give_up();
  }
}

void ValueStore::close(std::uint64_t sample_index) {
  Entry earlier;  // given up without the lock
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(sample_index);
    if (found != entries_.end()) {
      earlier = std::move(found->second);
      entries_.erase(found);
    }
    note_closed(sample_index);
  }
  if (earlier.slots) {
    earlier.slots->give_up();
  }
}

void ValueStore::give_up() {
  std::map<std::uint64_t, Entry> entries;
  {
    const std::lock_guard lock(mutex_);
    is_given_up_ = true;
    entries = std::exchange(entries_, {});
  }
  for (const auto& [sample, entry] : entries) {
    if (entry.slots) {
      entry.slots->give_up();
    }
  }
}

void ValueStore::await(const ValueName& name, std::function<void(bool)> then) {
  open(name.sample_index, name.run)->await(name.slot, std::move(then));
}

void ValueStore::fetch(const RemoteValue& value,
                       std::function<void(bool)> then) {
  const ValueName& name = value.name;
  const auto table = open(name.sample_index, name.run);
  if (table->has(name.slot)) {
    then(true);
    return;
  }
  // Whoever owns the store may let go of it before the answer comes.
  channel_->get(value.process, name,
                [self = shared_from_this(), table, slot = name.slot,
                 then = std::move(then)](const std::optional<Parcel>& parcel) {
                  bool is_here = false;
                  try {
                    auto unpacked = parcel ? unpack(*parcel) : std::nullopt;
                    is_here = unpacked.has_value();
                    if (is_here) {
                      table->put(slot, *std::move(unpacked));
                    }
                  } catch (...) {
                    is_here = false;  // no memory for it
                    log_lost_value(slot);
                  }
                  then(is_here);
                });
}

void ValueStore::fetch(std::span<const RemoteValue> values,
                       std::function<void(std::vector<RemoteValue>)> then) {
  struct Fetch {
    std::mutex mutex;
    std::size_t left;
    std::vector<RemoteValue> gone;
    std::function<void(std::vector<RemoteValue>)> then;
  };
  // One more, for this call: `then` must not come before the last question.
  const auto fetch = std::make_shared<Fetch>();
  fetch->left = values.size() + 1;
  fetch->then = std::move(then);
  const auto answer = [fetch](const RemoteValue* gone) {
    std::unique_lock lock(fetch->mutex);
    if (gone != nullptr) {
      fetch->gone.push_back(*gone);
    }
    if (--fetch->left == 0) {
      lock.unlock();
      fetch->then(std::move(fetch->gone));
    }
  };
  for (const RemoteValue& value : values) {
    this->fetch(value, [value, answer](bool is_here) {
      answer(is_here ? nullptr : &value);
    });
  }
  answer(nullptr);
}

void ValueStore::give(const ValueName& name, ValueChannel::Taker taker) {
  const auto table = open(name.sample_index, name.run);
  table->await(name.slot,
               [table = std::weak_ptr(table), slot = name.slot,
                reader = reader_, taker = std::move(taker)](bool is_here) {
                 const auto held = table.lock();
                 std::optional<Parcel> parcel;
                 if (is_here && held) {
                   try {
                     if (const auto value = held->find(slot)) {
                       parcel = pack(*value, *reader);
                     }
                   } catch (...) {
                     // Its device has failed, or there is no memory for a copy.
                     // Who asks takes it for gone: its sample goes back to its
                     // last cut.
                     log_lost_value(slot);
                   }
                 }
                 taker(std::move(parcel));
               });
}

std::function<void(const ValueName&, ValueChannel::Taker)> answers_of(
    std::weak_ptr<ValueStore> store) {
  return [store = std::move(store)](const ValueName& name,
                                    ValueChannel::Taker taker) {
    if (const auto there = store.lock()) {
      there->give(name, std::move(taker));
    } else {
      taker(std::nullopt);
    }
  };
}

void log_lost_value(samplers::Slot slot) noexcept {
  try {
    const Failure why = current_failure();
    log_message(LogLevel::warning, "a value (slot " + std::to_string(slot) +
                                       ") cannot be copied: [" + why.place +
                                       "] " + why.message);
  } catch (...) {
    // No memory to say so.
  }
}

bool ValueStore::is_closed(std::uint64_t sample_index) const {
  const auto after = closed_.upper_bound(sample_index);
  return after != closed_.begin() && sample_index < std::prev(after)->second;
}

void ValueStore::note_closed(std::uint64_t sample_index) {
  if (is_closed(sample_index)) {
    return;
  }
  auto range = closed_.emplace(sample_index, sample_index + 1).first;
  const auto next = std::next(range);
  if (next != closed_.end() && next->first == range->second) {
    range->second = next->second;
    closed_.erase(next);
  }
  if (range != closed_.begin()) {
    const auto before = std::prev(range);
    if (before->second == range->first) {
      before->second = range->second;
      closed_.erase(range);
    }
  }
}

std::size_t ValueStore::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace troupe::actors

#include "actors/sample_store.h"

#include <iterator>
#include <utility>

#include "kernels/core/context.h"
#include "samplers/solver.h"

namespace troupe::actors {

SampleStore::SampleStore(const samplers::Schedule& schedule,
                         samplers::NoiseSource& noise,
                         const Shape& latent_shape)
    : schedule_(schedule), noise_(noise), latent_shape_(latent_shape) {}

std::shared_ptr<samplers::SlotTable> SampleStore::open(
    std::uint64_t sample_index, std::uint32_t run) {
  std::shared_ptr<Entry> entry;
  std::shared_ptr<Entry> earlier;  // freed without the lock
  {
    const std::lock_guard lock(mutex_);
    const auto held = entries_.find(sample_index);
    const bool is_open = held != entries_.end();
    if (is_open && held->second->run == run) {
      entry = held->second;
    } else {
      entry = std::make_shared<Entry>();
      entry->run = run;
      const bool is_late =
          is_open ? run < held->second->run : is_closed(sample_index);
      if (!is_late) {
        earlier = std::exchange(entries_[sample_index], entry);
      }
    }
  }
  std::call_once(entry->filled, [&] {
    Tensor unit(latent_shape_, DType::f32);
    noise_.initial(sample_index, unit);
    ExecContext host;
    entry->slots.put(samplers::kInitialSlot,
                     samplers::initial_state(host, schedule_, unit));
  });
  samplers::SlotTable* slots = &entry->slots;
  return {std::move(entry), slots};
}

void SampleStore::close(std::uint64_t sample_index) {
  const std::lock_guard lock(mutex_);
  entries_.erase(sample_index);
  note_closed(sample_index);
}

bool SampleStore::is_closed(std::uint64_t sample_index) const {
  const auto after = closed_.upper_bound(sample_index);
  return after != closed_.begin() && sample_index < std::prev(after)->second;
}

void SampleStore::note_closed(std::uint64_t sample_index) {
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

std::size_t SampleStore::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace troupe::actors

#include "actors/sample_store.h"

#include "samplers/solver.h"

namespace troupe::actors {

SampleStore::SampleStore(const samplers::Schedule& schedule,
                         samplers::NoiseSource& noise,
                         const Shape& latent_shape)
    : schedule_(schedule), noise_(noise), latent_shape_(latent_shape) {}

std::shared_ptr<samplers::SlotTable> SampleStore::open(
    std::uint64_t sample_index) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    auto& held = entries_[sample_index];
    if (!held) {
      held = std::make_shared<Entry>();
    }
    entry = held;
  }
  std::call_once(entry->filled, [&] {
    Tensor unit(latent_shape_, DType::f32);
    noise_.initial(sample_index, unit);
    entry->slots.put(samplers::kInitialSlot,
                     samplers::initial_state(schedule_, unit));
  });
  samplers::SlotTable* slots = &entry->slots;
  return {std::move(entry), slots};
}

void SampleStore::close(std::uint64_t sample_index) {
  const std::lock_guard lock(mutex_);
  entries_.erase(sample_index);
}

std::size_t SampleStore::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace troupe::actors

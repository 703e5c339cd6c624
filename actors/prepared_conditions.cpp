#include "actors/prepared_conditions.h"

namespace troupe::actors {
namespace {

/// Bytes that an entry counts beside its tensors, so that many small conditions
/// count too.
constexpr std::size_t kEntryBytes = 512;

}  // namespace

models::PreparedPtr PreparedConditions::get(ExecContext& ctx,
                                            const StoredCondition& condition,
                                            std::span<const double> timesteps) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Entry>& slot = entries_[condition.hash()];
    if (slot) {
      order_.splice(order_.end(), order_, slot->rank);
    } else {
      slot = std::make_shared<Entry>();
      slot->rank = order_.insert(order_.end(), condition.hash());
    }
    entry = slot;
  }
  const std::lock_guard lock(entry->preparing);
  if (!entry->prepared) {
    entry->prepared = denoiser_.prepare(ctx, condition.get(), timesteps);
    count(*entry);
  }
  return entry->prepared;
}

/// Lets go what was used longest ago. Entries without bytes are being
/// prepared.
void PreparedConditions::count(Entry& entry) {
  const std::lock_guard lock(mutex_);
  entry.bytes = entry.prepared->num_bytes() + kEntryBytes;
  held_bytes_ += entry.bytes;
  auto oldest = order_.begin();
  while (held_bytes_ > most_bytes_ && oldest != order_.end()) {
    const auto found = entries_.find(*oldest);
    if (found->second.get() == &entry || found->second->bytes == 0) {
      ++oldest;
      continue;
    }
    held_bytes_ -= found->second->bytes;
    entries_.erase(found);
    oldest = order_.erase(oldest);
  }
}

}  // namespace troupe::actors

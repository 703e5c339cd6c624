#include "kernels/core/value_channel.h"

namespace troupe {

void ManualValueChannel::get(int holder, const ValueName& name, Taker taker) {
  open_.emplace(std::pair(holder, name), std::move(taker));
}

std::size_t ManualValueChannel::answer(int holder, const ValueName& name,
                                       const std::optional<Parcel>& parcel) {
  const auto [first, last] = open_.equal_range(std::pair(holder, name));
  std::vector<Taker> takers;
  for (auto it = first; it != last; ++it) {
    takers.push_back(std::move(it->second));
  }
  open_.erase(first, last);
  for (const Taker& taker : takers) {
    taker(parcel);
  }
  return takers.size();
}

}  // namespace troupe

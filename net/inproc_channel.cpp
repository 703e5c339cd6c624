#include "net/inproc_channel.h"

#include <limits>
#include <utility>

#include "kernels/core/error.h"

namespace troupe::net {

void InprocTensorChannel::put(const TensorTag& tag, TensorPtr tensor) {
  require(tensor != nullptr, Errc::internal, "tensor channel",
          "no tensor was put");
  const std::lock_guard lock(mutex_);
  arrived_.try_emplace(tag, std::move(tensor));
}

std::optional<TensorPtr> InprocTensorChannel::try_take(const TensorTag& tag) {
  const std::lock_guard lock(mutex_);
  const auto found = arrived_.find(tag);
  if (found == arrived_.end() || !found->second) {
    return std::nullopt;
  }
  return std::exchange(found->second, nullptr);
}

void InprocTensorChannel::forget(std::uint32_t sample) {
  const std::lock_guard lock(mutex_);
  const TensorTag last{sample, std::numeric_limits<std::uint32_t>::max(),
                       std::numeric_limits<std::uint64_t>::max()};
  arrived_.erase(arrived_.lower_bound(TensorTag{sample, 0, 0}),
                 arrived_.upper_bound(last));
}

std::size_t InprocTensorChannel::num_tags() const {
  const std::lock_guard lock(mutex_);
  return arrived_.size();
}

}  // namespace troupe::net

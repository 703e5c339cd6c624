#include "kernels/core/tensor_channel.h"

#include <utility>

namespace troupe {

void ManualTensorChannel::put(const TensorTag& tag, TensorPtr tensor) {
  if (seen_.insert(tag).second) {
    held_.emplace(tag, std::move(tensor));
  }
}

std::optional<TensorPtr> ManualTensorChannel::try_take(const TensorTag& tag) {
  auto node = arrived_.extract(tag);
  if (node.empty()) {
    return std::nullopt;
  }
  return std::move(node.mapped());
}

bool ManualTensorChannel::deliver(const TensorTag& tag) {
  auto node = held_.extract(tag);
  if (node.empty()) {
    return false;
  }
  arrived_.insert(std::move(node));
  return true;
}

void ManualTensorChannel::forget(std::uint32_t sample) {
  std::erase_if(held_, [&](const auto& e) { return e.first.sample == sample; });
  std::erase_if(arrived_,
                [&](const auto& e) { return e.first.sample == sample; });
  std::erase_if(seen_, [&](const TensorTag& t) { return t.sample == sample; });
}

}  // namespace troupe

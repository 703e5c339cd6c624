#include "kernels/offload.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/copy.h"
#include "kernels/cuda/ops.h"

namespace troupe::kernels {
namespace {

/// Where a matrix may begin: the alignment of device memory.
constexpr std::int64_t kAlignment = 256;

std::int64_t rounded_up(std::size_t bytes) {
  return (static_cast<std::int64_t>(bytes) + kAlignment - 1) / kAlignment *
         kAlignment;
}

}  // namespace

std::size_t OffloadedLayers::add(ExecContext& ctx,
                                 std::initializer_list<PackedLinear*> layers) {
  if (ctx.device().kind != DeviceKind::cuda) {
    groups_.emplace_back();
    return groups_.size() - 1;
  }
  std::int64_t bytes = 0;
  for (const PackedLinear* layer : layers) {
    bytes += rounded_up(layer->device_weight().num_bytes());
  }
  const Tensor group = cuda::pinned_memory(ctx, bytes);
  std::int64_t begin = 0;
  for (PackedLinear* layer : layers) {
    const Tensor weight = layer->device_weight();
    const auto size = static_cast<std::int64_t>(weight.num_bytes());
    const Tensor place = group.slice(begin, begin + size);
    Tensor pinned(place.owner(), weight.shape(), weight.dtype());
    copy(ctx, weight, pinned);
    layer->set_device_weight(pinned);
    begin += rounded_up(weight.num_bytes());
  }
  groups_.push_back(group);
  largest_ = std::max(largest_, group.num_bytes());
  return groups_.size() - 1;
}

void OffloadedLayers::fetch(ExecContext& ctx, std::size_t group,
                            std::size_t next) const {
  if (ctx.device().kind == DeviceKind::cuda) {
    cuda::fetch_weights(ctx, groups_.at(group), groups_.at(next), largest_);
  }
}

}  // namespace troupe::kernels

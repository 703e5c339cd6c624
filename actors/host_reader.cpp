#include "actors/host_reader.h"

#include "kernels/copy.h"

namespace troupe::actors {

Tensor HostReader::read(const Tensor& tensor) {
  if (tensor.device().kind == DeviceKind::cpu) {
    return tensor;
  }
  Lane& lane = lane_of(tensor.device());
  const std::lock_guard lock(lane.mutex);
  try {
    if (!lane.context) {
      lane.context = std::make_unique<ExecContext>(1, tensor.device());
    }
    return kernels::on_host(*lane.context, tensor);
  } catch (...) {
    lane.context.reset();
    throw;
  }
}

HostReader::Lane& HostReader::lane_of(const Device& device) {
  const std::lock_guard lock(mutex_);
  return lanes_[device.index];  // a map's entries stay where they are
}

}  // namespace troupe::actors

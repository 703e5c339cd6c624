#include "kernels/core/meter.h"

#include "kernels/core/error.h"

namespace troupe {
namespace {

constexpr std::uintptr_t kMeterAlignment = 256;

class PassedEvent final : public DeviceEvent {
 public:
  bool has_passed() override { return true; }
  void wait() override {}
};

}  // namespace

std::shared_ptr<std::byte> Meter::allocate(std::size_t bytes) {
  auto* const first = reinterpret_cast<std::byte*>(next_);
  next_ += (bytes + kMeterAlignment) / kMeterAlignment * kMeterAlignment;
  return {std::shared_ptr<void>(), first};
}

Tensor Meter::read_back(const Tensor& /*from*/) {
  throw Error(Errc::internal, "meter", "its tensors have no elements to read");
}

std::unique_ptr<DeviceEvent> Meter::mark() {
  return std::make_unique<PassedEvent>();
}

}  // namespace troupe

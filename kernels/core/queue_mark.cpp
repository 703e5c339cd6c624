#include "kernels/core/queue_mark.h"

#include <utility>

namespace troupe {

QueueMark::QueueMark(std::unique_ptr<DeviceEvent> event,
                     std::vector<Tensor> kept) noexcept
    : event_(std::move(event)) {
  if (event_) {
    kept_ = std::move(kept);
  }
}

QueueMark& QueueMark::operator=(QueueMark&& other) noexcept {
  if (this != &other) {
    let_go();
    event_ = std::move(other.event_);
    kept_ = std::exchange(other.kept_, {});
  }
  return *this;
}

QueueMark::~QueueMark() { let_go(); }

void QueueMark::let_go() noexcept {
  try {
    wait();
  } catch (...) {
    // A lost device reads nothing any more.
    event_.reset();
    kept_.clear();
  }
}

bool QueueMark::has_passed() {
  if (event_ && event_->has_passed()) {
    event_.reset();
    kept_.clear();
  }
  return event_ == nullptr;
}

void QueueMark::wait() {
  if (event_) {
    event_->wait();
    event_.reset();
    kept_.clear();
  }
}

}  // namespace troupe

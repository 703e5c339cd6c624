#include "kernels/core/queue_mark.h"

#include <utility>

namespace troupe {

QueueMark::QueueMark(std::unique_ptr<Moment> moment,
                     std::vector<Tensor> kept) noexcept
    : moment_(std::move(moment)) {
  if (moment_) {
    kept_ = std::move(kept);
  }
}

QueueMark& QueueMark::operator=(QueueMark&& other) noexcept {
  if (this != &other) {
    let_go();
    moment_ = std::move(other.moment_);
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
    moment_.reset();
    kept_.clear();
  }
}

bool QueueMark::has_passed() {
  if (moment_ && moment_->has_passed()) {
    moment_.reset();
    kept_.clear();
  }
  return moment_ == nullptr;
}

void QueueMark::wait() {
  if (moment_) {
    moment_->wait();
    moment_.reset();
    kept_.clear();
  }
}

}  // namespace troupe

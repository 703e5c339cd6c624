#include "net/zmq_poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "kernels/core/error.h"

namespace troupe::net {
namespace {

constexpr std::uint64_t kWakeId = 0;

}  // namespace

ZmqPoller::ZmqPoller()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)),
      event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kWakeId}};
  if (epoll_ < 0 || event_ < 0 ||
      epoll_ctl(epoll_, EPOLL_CTL_ADD, event_, &event) != 0) {
    throw Error(Errc::io, "link", "no more descriptors");
  }
}

ZmqPoller::~ZmqPoller() {
  close(event_);
  close(epoll_);
}

void ZmqPoller::add(std::uint64_t id, const ZmqSocket* socket) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = id}};
  require(epoll_ctl(epoll_, EPOLL_CTL_ADD, socket->descriptor(), &event) == 0,
          Errc::io, "link", "a socket cannot be watched");
  entries_[id] = {.socket = socket};
  touch(id);  // something may have come before
}

void ZmqPoller::remove(std::uint64_t id) {
  const auto found = entries_.find(id);
  if (found != entries_.end()) {
    epoll_ctl(epoll_, EPOLL_CTL_DEL, found->second.socket->descriptor(),
              nullptr);
    entries_.erase(found);
  }
}

void ZmqPoller::touch(std::uint64_t id) {
  const auto found = entries_.find(id);
  if (found != entries_.end() && !found->second.is_touched) {
    found->second.is_touched = true;
    touched_.push_back(id);
  }
}

void ZmqPoller::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(event_, &one, sizeof(one));
}

const std::vector<std::uint64_t>& ZmqPoller::wait(
    std::optional<TimePoint> until) {
  readable_.clear();
  const auto check = [&](std::uint64_t id) {
    const auto found = entries_.find(id);
    if (found != entries_.end() && found->second.socket->is_readable()) {
      readable_.push_back(id);
    }
  };
  for (const std::uint64_t id : touched_) {
    const auto found = entries_.find(id);
    if (found != entries_.end()) {
      found->second.is_touched = false;
      check(id);
    }
  }
  touched_.clear();
  int timeout_ms = readable_.empty() ? -1 : 0;
  if (timeout_ms != 0 && until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        *until - std::chrono::steady_clock::now());
    timeout_ms =
        static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
  }
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_, events.data(),
                               static_cast<int>(events.size()), timeout_ms);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
    if (id == kWakeId) {
      std::uint64_t value = 0;
      [[maybe_unused]] const auto got = read(event_, &value, sizeof(value));
    } else if (std::ranges::find(readable_, id) == readable_.end()) {
      check(id);
    }
  }
  return readable_;
}

}  // namespace troupe::net

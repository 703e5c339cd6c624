#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/clock.h"
#include "net/link_frame.h"

namespace troupe::net {

/// How a modelled connection treats frames.
struct WireFaults {
  double lost = 0;
  double doubled = 0;
  double flipped = 0;  ///< one bit of head or payload
  Duration least = std::chrono::microseconds(50);
  Duration spread{};  ///< frames overtake each other within this
  /// Nothing arrives that is sent in [first, second).
  std::vector<std::pair<TimePoint, TimePoint>> cuts;
  /// Nothing arrives on this lane that is sent from `dead_from` on.
  std::optional<Lane> dead_lane;
  TimePoint dead_from;
};

/// Two ends, 0 and 1, and what is on its way between them, in virtual time.
/// Bits go through the real codec.
class VirtualWire {
 public:
  VirtualWire(WireFaults faults, std::mt19937_64& random)
      : faults_(std::move(faults)), random_(random) {}

  void send(int from, const Transmit& frame, TimePoint now) {
    ++num_sent_[frame.head.kind];
    for (const auto& [begin, end] : faults_.cuts) {
      if (now >= begin && now < end) {
        return;
      }
    }
    if (faults_.dead_lane == lane_of(frame.head.kind) &&
        now >= faults_.dead_from) {
      return;
    }
    const int copies = chance(faults_.doubled) ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy) {
      if (chance(faults_.lost)) {
        continue;
      }
      OnWay on_way{.to = 1 - from};
      const auto head = encode_head(frame.head, frame.payload.span());
      on_way.head.assign(head.begin(), head.end());
      const auto payload = frame.payload.span();
      on_way.payload.assign(payload.begin(), payload.end());
      if (chance(faults_.flipped)) {
        flip(on_way);
      }
      bytes_ += payload.size() + head.size();
      most_bytes_ = std::max(most_bytes_, bytes_);
      auto delay = faults_.least;
      if (faults_.spread.count() > 0) {
        delay += Duration(static_cast<Duration::rep>(
            random_() % static_cast<std::uint64_t>(faults_.spread.count())));
      }
      on_way_.emplace(now + delay, std::move(on_way));
    }
  }

  /// When the next frame arrives.
  [[nodiscard]] TimePoint next() const {
    return on_way_.empty() ? TimePoint::max() : on_way_.begin()->first;
  }

  /// Hands the next frame to `arrive(to, frame)`, unless it is damaged.
  template <typename Arrive>
  void deliver(const Arrive& arrive) {
    const OnWay frame = std::move(on_way_.begin()->second);
    on_way_.erase(on_way_.begin());
    bytes_ -= frame.payload.size() + frame.head.size();
    const ReadHead read = read_head(frame.head, frame.payload);
    if (read.state == FrameState::good) {
      arrive(frame.to, FrameArrived{read.head, frame.payload});
    }
  }

  /// The most bytes that were on their way at once.
  [[nodiscard]] std::size_t most_bytes() const { return most_bytes_; }
  /// Frames of a kind that were sent, whether or not they arrived.
  [[nodiscard]] int num_sent(FrameKind kind) { return num_sent_[kind]; }
  /// Flips that only the hash of the whole value can show.
  [[nodiscard]] int flipped_values() const { return flipped_values_; }

 private:
  struct OnWay {
    int to = 0;
    std::vector<std::byte> head;
    std::vector<std::byte> payload;
  };

  [[nodiscard]] bool chance(double probability) {
    return std::uniform_real_distribution<>(0, 1)(random_) < probability;
  }

  void flip(OnWay& frame) {
    const std::size_t bit =
        random_() % (8 * (frame.head.size() + frame.payload.size()));
    const bool in_head = bit / 8 < frame.head.size();
    std::byte& byte = in_head ? frame.head[bit / 8]
                              : frame.payload[bit / 8 - frame.head.size()];
    byte ^= std::byte{1} << (bit % 8);
    if (!in_head &&
        read_head(frame.head, frame.payload).state == FrameState::good) {
      ++flipped_values_;
    }
  }

  WireFaults faults_;
  std::mt19937_64& random_;
  std::multimap<TimePoint, OnWay> on_way_;
  std::size_t bytes_ = 0;
  std::size_t most_bytes_ = 0;
  int flipped_values_ = 0;
  std::map<FrameKind, int> num_sent_;
};

/// Faults of every kind, from none to many.
[[nodiscard]] inline WireFaults random_faults(std::mt19937_64& random) {
  const double levels[] = {0, 0, 0.02, 0.2};
  WireFaults faults;
  faults.lost = levels[random() % 4];
  faults.doubled = levels[random() % 4];
  faults.flipped = levels[random() % 4] / 4;
  faults.spread = std::chrono::microseconds(random() % 2 == 0 ? 0 : 3000);
  return faults;
}

}  // namespace troupe::net

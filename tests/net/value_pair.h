#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "net/value_transfer.h"
#include "tests/net/same_bytes.h"
#include "tests/net/virtual_wire.h"

namespace troupe::net {

/// A value of random parts, `size` bytes in all.
[[nodiscard]] inline Value make_value(std::size_t size,
                                      std::mt19937_64& random) {
  Value value;
  while (size > 0 || random() % 4 == 0) {
    const std::size_t part = random() % 3 == 0 ? size : random() % (size + 1);
    std::string bytes(part, static_cast<char>(random()));
    for (std::size_t i = 0; i < part; i += 997) {
      bytes[i] = static_cast<char>(random());
    }
    value.push_back(share(std::move(bytes)));
    size -= part;
  }
  return value;
}

[[nodiscard]] inline bool values_equal(const Value& a, const Value& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_bytes);
}

/// An asker (end 0) and a holder (end 1) over a wire in virtual time.
class ValuePair {
 public:
  ValuePair(std::uint64_t seed, WireFaults faults)
      : random_(seed), wire_(std::move(faults), random_) {}

  FetchId ask(const std::string& key, std::size_t most_bytes,
              Duration deadline = std::chrono::hours(1)) {
    const FetchId fetch = ++last_fetch_;
    event(AskFor{fetch, key, most_bytes, now + deadline});
    return fetch;
  }
  void event(const AskerEvent& it) { act(asker.on(it, now)); }
  void answer(const HolderEvent& it) { act(holder.on(it, now)); }

  void run(TimePoint until) {
    while (true) {
      const auto asker_due = asker.next_deadline();
      const auto holder_due = holder.next_deadline();
      const TimePoint next =
          std::min({wire_.next(), asker_due.value_or(TimePoint::max()),
                    holder_due.value_or(TimePoint::max())});
      if (next > until) {
        now = until;
        return;
      }
      now = std::max(now, next);
      if (wire_.next() <= now) {
        wire_.deliver([&](int to, const FrameArrived& frame) {
          if (to == 0) {
            act(asker.on(frame, now));
          } else {
            act(holder.on(frame, now));
          }
        });
      } else if (asker_due && *asker_due <= now) {
        act(asker.on(Woken{}, now));
      } else {
        act(holder.on(Woken{}, now));
      }
    }
  }

  VirtualWire& wire() { return wire_; }
  std::mt19937_64& random() { return random_; }

  ValueAsker asker{"the holder"};
  ValueHolder holder{1};
  TimePoint now{std::chrono::hours(1)};
  /// Values that exist, and open questions for missing values.
  std::map<std::string, Value> values;
  std::map<WantId, std::string> open_wants;
  std::set<std::string> never;
  std::map<FetchId, Fetched> ended;
  int num_wants = 0;

 private:
  void act(std::vector<AskerCommand> commands) {
    for (AskerCommand& command : commands) {
      if (auto* frame = std::get_if<Transmit>(&command)) {
        wire_.send(0, *frame, now);
      } else {
        auto& end = std::get<FetchEnded>(command);
        EXPECT_TRUE(ended.emplace(end.fetch, std::move(end.fetched)).second)
            << "answered twice";
      }
    }
  }

  void act(std::vector<HolderCommand> commands) {
    for (HolderCommand& command : commands) {
      if (auto* frame = std::get_if<Transmit>(&command)) {
        wire_.send(1, *frame, now);
        continue;
      }
      const auto& [want, key] = std::get<Wanted>(command);
      ++num_wants;
      const auto found = values.find(key);
      if (found != values.end()) {
        act(holder.on(GiveValue{want, found->second}, now));
      } else if (never.count(key) > 0) {
        act(holder.on(GiveNothing{want}, now));
      } else {
        open_wants.emplace(want, key);
      }
    }
  }

  std::mt19937_64 random_;
  VirtualWire wire_;
  FetchId last_fetch_ = 0;
};

}  // namespace troupe::net

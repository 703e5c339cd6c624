#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zmq.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/link.h"
#include "tests/net/link_keys.h"
#include "tests/net/same_bytes.h"

namespace troupe::net {

/// Long enough for a busy machine: no test waits so long unless it fails.
inline constexpr Duration kPatience = std::chrono::seconds(30);

/// A process's side of a hub: lets every peer in, and records the calls of the
/// handler.
class Witness final : public LinkHandler {
 public:
  struct Peer {
    std::optional<Greeting> greeted;
    std::optional<Greeting> up;
    std::vector<std::string> records;
    std::size_t num_records = 0;
    std::size_t bytes = 0;
    int num_rooms = 0;
    std::optional<Duration> round_trip;
    std::optional<Loss> loss;
  };

  void on_greeting(PeerId peer, const Greeting& greeting) override {
    note([&] { peers_[peer].greeted = greeting; });
    if (refusal) {
      hub->refuse(peer, *refusal);
    } else if (accepts) {
      hub->accept(peer, "welcome");
    }
  }
  void on_up(PeerId peer, const Greeting& greeting) override {
    note([&] { peers_[peer].up = greeting; });
  }
  void on_record(PeerId peer, std::span<const std::byte> record) override {
    if (echo) {
      hub->send(peer, share(std::string(text(record))));
    }
    note([&] {
      Peer& its = peers_[peer];
      ++its.num_records;
      its.bytes += record.size();
      if (keeps_records) {
        its.records.emplace_back(text(record));
      }
    });
  }
  void on_room(PeerId peer) override {
    note([&] { ++peers_[peer].num_rooms; });
  }
  void on_beat(PeerId peer,
               const std::optional<RoundTrip>& round_trip) override {
    note([&] {
      if (round_trip) {
        peers_[peer].round_trip = round_trip->taken;
      }
    });
  }
  void on_wanted(PeerId /*peer*/, WantId want, std::string_view key) override {
    std::optional<Value> value;
    note([&] {
      const auto found = values_.find(std::string(key));
      if (found != values_.end()) {
        value = found->second;
      } else if (!key.starts_with("never")) {
        wants_.emplace(want, key);
      }
    });
    if (value) {
      hub->give(want, *value);
    } else if (key.starts_with("never")) {
      hub->give_nothing(want);
    }
  }
  void on_lost(PeerId peer, const Loss& loss) override {
    note([&] { peers_[peer].loss = loss; });
  }

  /// Waits until `holds(peers)`.
  template <typename Condition>
  [[nodiscard]] bool wait(const Condition& holds,
                          Duration patience = kPatience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return holds(peers_); });
  }
  [[nodiscard]] bool wait_up(PeerId peer) {
    return wait([&](auto& peers) {
             return peers[peer].up.has_value() || peers[peer].loss.has_value();
           }) &&
           look(peer).up.has_value();
  }
  /// From then on a closed connection is noticed before the lease.
  [[nodiscard]] bool wait_round_trip(PeerId peer) {
    return wait(
        [&](auto& peers) { return peers[peer].round_trip.has_value(); });
  }
  [[nodiscard]] bool wait_lost(PeerId peer) {
    return wait([&](auto& peers) { return peers[peer].loss.has_value(); });
  }
  [[nodiscard]] bool wait_records(PeerId peer, std::size_t count) {
    return wait([&](auto& peers) { return peers[peer].num_records >= count; });
  }
  /// The first question without an answer.
  [[nodiscard]] WantId wait_want() {
    WantId want = 0;
    EXPECT_TRUE(wait([&](auto&) {
      want = wants_.empty() ? 0 : wants_.begin()->first;
      return want != 0;
    }));
    return want;
  }
  [[nodiscard]] Peer look(PeerId peer) {
    const std::lock_guard lock(mutex_);
    return peers_[peer];
  }
  [[nodiscard]] std::size_t num_peers() {
    const std::lock_guard lock(mutex_);
    return peers_.size();
  }

  /// Every question for the value gets it at once.
  void offer(const std::string& key, Value value) {
    note([&] { values_[key] = std::move(value); });
  }

  Hub* hub = nullptr;
  bool accepts = true;
  bool echo = false;
  bool keeps_records = true;
  std::optional<std::string> refusal;

 private:
  [[nodiscard]] static std::string text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  template <typename Change>
  void note(const Change& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<PeerId, Peer> peers_;
  std::map<std::string, Value> values_;
  std::map<WantId, std::string> wants_;
};

/// A hub and its witness.
struct Process {
  explicit Process(HubOptions options, Switchboard* board = nullptr)
      : hub(board != nullptr ? board->make_hub(std::move(options), witness)
                             : make_hub(std::move(options), witness)) {
    witness.hub = hub.get();
  }

  Witness witness;
  std::unique_ptr<Hub> hub;
};

/// The answer to a question.
class Taken {
 public:
  [[nodiscard]] FetchTaker taker() {
    return [this](Fetched fetched) {
      const std::lock_guard lock(mutex_);
      fetched_ = std::move(fetched);
      changed_.notify_all();
    };
  }
  [[nodiscard]] Fetched wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience,
                                  [&] { return fetched_.has_value(); }));
    return std::exchange(fetched_, std::nullopt).value_or(Fetched{});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Fetched> fetched_;
};

/// A folder for ipc sockets, 0700, removed at the end.
class SocketFolder {
 public:
  SocketFolder() {
    std::string name = "/tmp/troupe-net-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~SocketFolder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace troupe::net

#include "net/inproc_communicator.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "kernels/core/error.h"

namespace troupe::net {
namespace {

/// A message of a rank that is in `exchange`, in that rank's memory.
struct Offer {
  enum class State : std::uint8_t { waiting, being_copied, taken };
  std::span<const std::byte> bytes;
  Communicator::Tag tag = 0;
  int to = 0;
  State state = State::waiting;
};

/// What the ranks share, behind one lock.
struct InprocWorld {
  explicit InprocWorld(int world_size)
      : members(static_cast<std::size_t>(world_size)),
        offers(members.size() * members.size()) {}

  struct Member {
    std::condition_variable changed;
    std::optional<Error> ended;
  };

  [[nodiscard]] Member& member(int rank) {
    return members[static_cast<std::size_t>(rank)];
  }
  /// In the order in which they were made.
  [[nodiscard]] std::deque<Offer*>& between(int from, int to) {
    return offers[static_cast<std::size_t>(from) * members.size() +
                  static_cast<std::size_t>(to)];
  }
  /// From here on operations of the rank, and those that wait for it, fail.
  void end(int rank, const Error& error) {
    if (!member(rank).ended) {
      member(rank).ended = error;
      for (Member& each : members) {
        each.changed.notify_all();
      }
    }
  }

  std::mutex mutex;
  std::vector<Member> members;
  std::vector<std::deque<Offer*>> offers;
};

class InprocCommunicator final : public Communicator {
 public:
  InprocCommunicator(std::shared_ptr<InprocWorld> world, int rank)
      : world_(std::move(world)), rank_(rank) {}

  ~InprocCommunicator() override {
    end(Error(Errc::unreachable, kCommunicatorPlace, "it was closed"));
  }

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int world_size() const noexcept override {
    return static_cast<int>(world_->members.size());
  }

  void abort(const std::string& why) override { end(aborted(why)); }

  void check() override {
    const std::lock_guard lock(world_->mutex);
    check_locked();
  }

 protected:
  void exchange_with_others(const Call& call, std::span<const Send> sends,
                            std::span<const Receive> receives) override {
    std::unique_lock lock(world_->mutex);
    check_locked();
    std::vector<Offer> offers;
    for (const Send& send : sends) {
      offers.push_back({send.bytes, call.tag, send.to});
    }
    for (Offer& offer : offers) {
      world_->between(rank_, offer.to).push_back(&offer);
      world_->member(offer.to).changed.notify_all();
    }
    try {
      std::vector<Receive> left(receives.begin(), receives.end());
      while (take_all(call, left, lock) || !are_taken(offers)) {
        check_waiting(call, left, offers);
        world_->member(rank_).changed.wait_until(lock, call.deadline);
      }
    } catch (const Error& error) {
      withdraw(offers, lock);
      world_->end(rank_, error);
      throw;
    }
  }

 private:
  void end(const Error& error) {
    const std::lock_guard lock(world_->mutex);
    world_->end(rank_, error);
  }

  void check_locked() const {
    if (const auto& ended = world_->member(rank_).ended) {
      throw *ended;
    }
  }

  /// Takes messages that have arrived, and removes their receives from `left`.
  /// Returns whether receives are left.
  bool take_all(const Call& call, std::vector<Receive>& left,
                std::unique_lock<std::mutex>& lock) {
    // From the first one each time: while the lock was open, one may have come
    // for a receive that was passed over.
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (take(call, left[i], lock)) {
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
        i = static_cast<std::size_t>(-1);
      }
    }
    return !left.empty();
  }

  /// Takes the next message of the peer, if there is one. The lock is open
  /// while bytes are copied.
  bool take(const Call& call, const Receive& receive,
            std::unique_lock<std::mutex>& lock) {
    auto& offers = world_->between(receive.from, rank_);
    if (offers.empty()) {
      return false;
    }
    Offer& offer = *offers.front();
    const MessageHead got{offer.tag, offer.bytes.size()};
    const MessageHead expected{call.tag, receive.bytes.size()};
    if (got != expected) {
      throw disagreement(receive.from, got, expected);
    }
    offer.state = Offer::State::being_copied;
    lock.unlock();
    std::memcpy(receive.bytes.data(), offer.bytes.data(), offer.bytes.size());
    lock.lock();
    offer.state = Offer::State::taken;
    offers.pop_front();
    world_->member(receive.from).changed.notify_all();
    return true;
  }

  [[nodiscard]] static bool are_taken(const std::vector<Offer>& offers) {
    return std::ranges::all_of(offers, [](const Offer& offer) {
      return offer.state == Offer::State::taken;
    });
  }

  /// Whether it makes sense to wait for what is missing.
  void check_waiting(const Call& call, const std::vector<Receive>& left,
                     const std::vector<Offer>& offers) const {
    check_locked();
    std::vector<int> waited;
    for (const Receive& receive : left) {
      waited.push_back(receive.from);
    }
    for (const Offer& offer : offers) {
      if (offer.state != Offer::State::taken) {
        waited.push_back(offer.to);
      }
    }
    for (const int peer : waited) {
      if (const auto& ended = world_->member(peer).ended) {
        throw peer_ended(peer, ended->message());
      }
    }
    if (std::chrono::steady_clock::now() >= call.deadline) {
      throw peers_late(std::move(waited), call.tag);
    }
  }

  /// Nobody touches these bytes afterwards.
  void withdraw(std::vector<Offer>& offers,
                std::unique_lock<std::mutex>& lock) {
    for (Offer& offer : offers) {
      world_->member(rank_).changed.wait(
          lock, [&] { return offer.state != Offer::State::being_copied; });
      if (offer.state == Offer::State::waiting) {
        std::erase(world_->between(rank_, offer.to), &offer);
      }
    }
  }

  std::shared_ptr<InprocWorld> world_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_inproc_communicators(
    int world_size) {
  require(world_size >= 1, Errc::invalid_argument, kCommunicatorPlace,
          "expected at least one rank");
  const auto world = std::make_shared<InprocWorld>(world_size);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < world_size; ++rank) {
    communicators.push_back(std::make_unique<InprocCommunicator>(world, rank));
  }
  return communicators;
}

}  // namespace troupe::net

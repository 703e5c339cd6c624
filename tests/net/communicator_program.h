#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "kernels/core/hash.h"
#include "kernels/core/split_mix.h"
#include "tests/net/communicator_world.h"

// Random programs of operations of a communicator.

namespace troupe::net {

using Bytes = std::vector<std::byte>;
using Random = std::mt19937_64;

/// One number of a draw that any rank can repeat.
inline std::uint64_t hash_of(std::initializer_list<std::uint64_t> numbers) {
  return xxh3_64(std::as_bytes(std::span(numbers.begin(), numbers.size())));
}

inline std::uint64_t number_of_rank(int rank) {
  return static_cast<std::uint64_t>(rank) + 1;
}

/// Often none, rarely many bytes.
inline std::size_t size_from(std::uint64_t hash) {
  switch (hash % 8) {
    case 0:
    case 1:
      return 0;
    case 2:
    case 3:
    case 4:
      return hash / 8 % 64;
    case 5:
    case 6:
      return hash / 8 % 5000;
    default:
      return hash / 8 % 11 == 0 ? hash / 88 % 3'000'000 : hash / 88 % 70'000;
  }
}

/// One rank's run of a program, with the bytes that it receives. Every rank
/// draws the same steps. The bytes that a rank sends depend on all bytes that
/// it received before.
class ProgramRank {
 public:
  /// patience: for each operation.
  ProgramRank(TestRank& self, std::uint64_t seed,
              Duration patience = std::chrono::minutes(10))
      : self_(self),
        it_(*self.communicator),
        seed_(seed),
        random_(seed),
        patience_(patience) {}

  Bytes run() {
    const std::uint64_t num_steps = 1 + random_() % 10;
    for (step_ = 0; step_ < num_steps; ++step_) {
      const std::uint64_t kind = random_() % 8;
      const std::uint64_t root = random_();
      draw_group();
      const Communicator::Call call{
          random_(), std::chrono::steady_clock::now() + patience_, group_};
      if (std::ranges::find(members_, self_.rank()) != members_.end()) {
        run_step(kind, call, members_[root % members_.size()]);
      }
    }
    return std::move(got_);
  }

 private:
  void draw_group() {
    members_.resize(static_cast<std::size_t>(it_.world_size()));
    std::iota(members_.begin(), members_.end(), 0);
    group_.clear();
    if (random_() % 2 == 0) {
      return;
    }
    for (std::size_t i = members_.size(); i > 1; --i) {
      std::swap(members_[i - 1], members_[random_() % i]);
    }
    members_.resize(1 + random_() % members_.size());
    group_ = members_;
  }

  void run_step(std::uint64_t kind, const Communicator::Call& call, int root) {
    kept_.clear();
    targets_.clear();
    switch (kind) {
      case 0:
        it_.barrier(call);
        break;
      case 1:
        broadcast(call, root);
        break;
      case 2:
        all_gather(call);
        break;
      case 3:
        all_to_all(call);
        break;
      case 4:
        all_reduce(call);
        break;
      case 5:
        ring_exchange(call);
        break;
      default:
        exchange(call);
    }
    for (CommunicatorMemory* target : targets_) {
      const Bytes bytes = target->read();
      got_.insert(got_.end(), bytes.begin(), bytes.end());
    }
    state_ = hash_of({state_, xxh3_64(got_)});
  }

  /// Bytes of this rank, never the same twice.
  Bytes fill(std::size_t size) {
    Bytes bytes(size);
    std::uint64_t drawn =
        hash_of({state_, ++num_filled_, number_of_rank(self_.rank())});
    for (std::size_t i = 0; i < size; i += 8) {
      const std::uint64_t bits = split_mix(drawn += kSplitMixStep);
      std::memcpy(bytes.data() + i, &bits, std::min<std::size_t>(8, size - i));
    }
    return bytes;
  }

  std::span<const std::byte> source(std::size_t size) {
    kept_.push_back(self_.memory(fill(size)));
    return kept_.back()->span();
  }

  std::span<std::byte> target(std::size_t size) {
    kept_.push_back(self_.memory(size));
    targets_.push_back(kept_.back().get());
    return kept_.back()->span();
  }

  /// Size of the message from rank `from` to rank `to` in this step.
  [[nodiscard]] std::size_t size_between(int from, int to,
                                         std::uint64_t which = 0) const {
    return size_from(hash_of(
        {seed_, step_, number_of_rank(from), number_of_rank(to), which}));
  }

  void broadcast(const Communicator::Call& call, int root) {
    const std::size_t size = size_between(root, root);
    kept_.push_back(self_.memory(fill(size)));
    targets_.push_back(kept_.back().get());
    it_.broadcast(call, root, kept_.back()->span());
  }

  void all_gather(const Communicator::Call& call) {
    std::vector<std::span<std::byte>> parts;
    for (const int from : members_) {
      parts.push_back(target(size_between(from, from)));
    }
    it_.all_gather(call, source(size_between(self_.rank(), self_.rank())),
                   parts);
  }

  void all_to_all(const Communicator::Call& call) {
    std::vector<std::span<const std::byte>> to;
    std::vector<std::span<std::byte>> from;
    for (const int other : members_) {
      to.push_back(source(size_between(self_.rank(), other)));
      from.push_back(target(size_between(other, self_.rank())));
    }
    it_.all_to_all(call, to, from);
  }

  void all_reduce(const Communicator::Call& call) {
    std::vector<float> values(size_between(0, 0) % 10'000);
    std::uint64_t drawn = hash_of({state_, number_of_rank(self_.rank())});
    for (float& value : values) {
      const std::uint64_t bits = split_mix(drawn += kSplitMixStep);
      value = std::ldexp(static_cast<float>(bits % 20'001) - 10'000.0F,
                         static_cast<int>(bits >> 32U) % 24);
    }
    kept_.push_back(self_.memory(std::as_bytes(std::span(values))));
    targets_.push_back(kept_.back().get());
    it_.all_reduce(call, {reinterpret_cast<float*>(kept_.back()->span().data()),
                          values.size()});
  }

  void ring_exchange(const Communicator::Call& call) {
    const auto own = static_cast<std::size_t>(
        std::ranges::find(members_, self_.rank()) - members_.begin());
    const std::size_t count = members_.size();
    it_.ring_exchange(
        call, source(size_between(self_.rank(), members_[(own + 1) % count])),
        target(
            size_between(members_[(own + count - 1) % count], self_.rank())));
  }

  /// Up to three messages between any two, in an order of each rank's own.
  void exchange(const Communicator::Call& call) {
    const auto count = [&](int from, int to) {
      return hash_of(
                 {seed_, step_, number_of_rank(from), number_of_rank(to), 99}) %
             4;
    };
    std::vector<int> others = members_;
    std::rotate(
        others.begin(),
        others.begin() + static_cast<std::ptrdiff_t>(step_ % others.size()),
        others.end());
    std::vector<Communicator::Send> sends;
    std::vector<Communicator::Receive> receives;
    for (std::uint64_t which = 0; which < 3; ++which) {
      for (const int other : others) {
        if (which < count(self_.rank(), other)) {
          sends.push_back(
              {other, source(size_between(self_.rank(), other, which))});
        }
        if (which < count(other, self_.rank())) {
          receives.push_back(
              {other, target(size_between(other, self_.rank(), which))});
        }
      }
    }
    it_.exchange(call, sends, receives);
  }

  TestRank& self_;
  Communicator& it_;
  std::uint64_t seed_;
  Random random_;
  Duration patience_;
  std::uint64_t step_ = 0;
  std::vector<int> members_;
  std::vector<int> group_;
  std::vector<std::unique_ptr<CommunicatorMemory>> kept_;
  std::vector<CommunicatorMemory*> targets_;
  Bytes got_;
  std::uint64_t state_ = 0;
  std::uint64_t num_filled_ = 0;
};

}  // namespace troupe::net

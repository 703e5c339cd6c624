#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::actors {

/// Which of numbered places has the least key: of equal ones the first, as a
/// search from the first to the last would find it. A tree of duels: every
/// inner node holds the winner of its two halves.
/// Cost: `set` is logarithmic, `first` constant, and so is `add_place` on
/// average. Thread: one.
template <typename Key>
class FirstLeast {
 public:
  /// One more, the last: it has no key yet.
  void add_place() {
    keys_.emplace_back();
    const std::size_t leaves = winners_.size();
    if (keys_.size() <= leaves / 2) {
      return;
    }
    winners_.assign(2 * leaves, kNobody);
    for (std::size_t place = 0; place < keys_.size(); ++place) {
      winners_[leaves + place] = keys_[place] ? place : kNobody;
    }
    for (std::size_t node = leaves - 1; node > 0; --node) {
      winners_[node] = better(winners_[2 * node], winners_[2 * node + 1]);
    }
  }

  /// Without a key the place takes no part.
  void set(std::size_t place, std::optional<Key> key) {
    if (!keys_[place] && !key) {
      return;
    }
    keys_[place] = std::move(key);
    std::size_t node = winners_.size() / 2 + place;
    winners_[node] = keys_[place] ? place : kNobody;
    while (node > 1) {
      node /= 2;
      const std::size_t winner =
          better(winners_[2 * node], winners_[2 * node + 1]);
      if (winner == winners_[node] && winner != place) {
        return;  // nothing changes further up
      }
      winners_[node] = winner;
    }
  }

  /// None when no place has a key.
  [[nodiscard]] std::optional<std::size_t> first() const {
    return winners_[1] == kNobody ? std::nullopt : std::optional(winners_[1]);
  }
  /// The key of a place that has one.
  [[nodiscard]] const Key& key(std::size_t place) const {
    return *keys_[place];
  }

 private:
  static constexpr std::size_t kNobody = ~std::size_t{0};

  [[nodiscard]] std::size_t better(std::size_t left, std::size_t right) const {
    if (left == kNobody || right == kNobody) {
      return left == kNobody ? right : left;
    }
    return *keys_[right] < *keys_[left] ? right : left;
  }

  std::vector<std::optional<Key>> keys_;
  /// [1] is the root, leaves stand last; their number is a power of two.
  std::vector<std::size_t> winners_ = {kNobody, kNobody};
};

}  // namespace troupe::actors

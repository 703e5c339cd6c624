#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/core/error.h"

namespace troupe {

/// A map for few entries at a time. Keys lie sorted side by side, each with the
/// place of its value. A key that is larger than all others is added as quickly
/// as a vector is appended to: best for keys that mostly rise as they come.
/// Memory is taken only when there are more entries than ever before. A
/// reference to a value ends when an entry is added, or when its own is taken
/// out. Thread: one.
template <typename Key, typename Value>
class FlatTable {
  struct Entry {
    Key key;
    std::uint32_t place;
  };

  template <typename Table, typename Reference>
  class Iterator {
   public:
    using value_type = std::pair<Key, Reference>;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    Iterator(Table* table, std::size_t index) : table_(table), index_(index) {}
    value_type operator*() const {
      const Entry& entry = table_->entries_[index_];
      return {entry.key, table_->values_[entry.place]};
    }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++index_;
      return before;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    Table* table_ = nullptr;
    std::size_t index_ = 0;
  };

 public:
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] bool contains(Key key) const { return find(key) != nullptr; }

  /// Null: there is no such entry.
  [[nodiscard]] Value* find(Key key) {
    const auto entry = search(entries_, key);
    return entry == entries_.end() || entry->key != key
               ? nullptr
               : &values_[entry->place];
  }
  [[nodiscard]] const Value* find(Key key) const {
    const auto entry = search(entries_, key);
    return entry == entries_.end() || entry->key != key
               ? nullptr
               : &values_[entry->place];
  }
  /// Errors: Errc::internal when there is no such entry.
  [[nodiscard]] Value& at(Key key) {
    Value* const found = find(key);
    require(found != nullptr, Errc::internal, "table", "lacks an entry");
    return *found;
  }
  [[nodiscard]] const Value& at(Key key) const {
    const Value* const found = find(key);
    require(found != nullptr, Errc::internal, "table", "lacks an entry");
    return *found;
  }
  /// The value of the key. A new key gets Value{}.
  Value& operator[](Key key) {
    const auto entry = search(entries_, key);
    if (entry != entries_.end() && entry->key == key) {
      return values_[entry->place];
    }
    const std::uint32_t place = new_place();
    entries_.insert(entry, {key, place});
    return values_[place];
  }
  /// Takes the entry out and returns its value. Nothing: there is no such
  /// entry.
  std::optional<Value> take(Key key) {
    const auto entry = search(entries_, key);
    if (entry == entries_.end() || entry->key != key) {
      return std::nullopt;
    }
    const std::uint32_t place = entry->place;
    std::optional<Value> value(std::exchange(values_[place], Value{}));
    free_.push_back(place);
    entries_.erase(entry);
    return value;
  }
  void erase(Key key) { (void)take(key); }
  /// Takes out the entries for which `is_unwanted(key, value)`. The predicate
  /// is called once per entry, in the order of the keys.
  template <typename Predicate>
  void erase_if(const Predicate& is_unwanted) {
    std::erase_if(entries_, [&](const Entry& entry) {
      const bool goes = is_unwanted(entry.key, values_[entry.place]);
      if (goes) {
        values_[entry.place] = Value{};
        free_.push_back(entry.place);
      }
      return goes;
    });
  }
  void clear() {
    entries_.clear();
    values_.clear();
    free_.clear();
  }

  /// In the order of keys: pairs of a key and a reference to its value.
  [[nodiscard]] auto begin() { return Iterator<FlatTable, Value&>(this, 0); }
  [[nodiscard]] auto end() {
    return Iterator<FlatTable, Value&>(this, entries_.size());
  }
  [[nodiscard]] auto begin() const {
    return Iterator<const FlatTable, const Value&>(this, 0);
  }
  [[nodiscard]] auto end() const {
    return Iterator<const FlatTable, const Value&>(this, entries_.size());
  }

 private:
  /// The first entry whose key is not less.
  template <typename Entries>
  static auto search(Entries& entries, Key key) {
    if (entries.empty() || entries.back().key < key) {
      return entries.end();
    }
    return std::ranges::lower_bound(entries, key, {}, &Entry::key);
  }
  std::uint32_t new_place() {
    if (free_.empty()) {
      values_.emplace_back();
      return static_cast<std::uint32_t>(values_.size() - 1);
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    return place;
  }

  std::vector<Entry> entries_;
  std::vector<Value> values_;
  std::vector<std::uint32_t> free_;
};

}  // namespace troupe

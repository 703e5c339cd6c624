#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <ranges>
#include <type_traits>
#include <utility>

#include "kernels/core/error.h"

namespace troupe {

/// A vector of trivial values. Up to N of them lie in the vector itself, more
/// lie on the heap. For lists that are nearly always short and are copied
/// often. References to its values end when it grows, moves or dies.
/// Thread: one.
template <typename T, std::size_t N>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T> &&
                std::is_default_constructible_v<T> && N > 0);

 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;

  InlineVector() noexcept = default;
  InlineVector(std::initializer_list<T> values) { assign(values); }
  template <std::input_iterator Iterator>
  InlineVector(Iterator first, Iterator last) {
    append(first, last);
  }
  InlineVector(const InlineVector& other) { *this = other; }
  InlineVector(InlineVector&& other) noexcept { take(other); }
  InlineVector& operator=(const InlineVector& other) {
    if (this == &other) {
      return *this;
    }
    if (heap_ == nullptr && other.heap_ == nullptr) {
      size_ = other.size_;
      copy_inline(other);
    } else {
      assign(other);
    }
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }
  ~InlineVector() { release(); }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] T* data() noexcept { return heap_ ? heap_ : inline_; }
  [[nodiscard]] const T* data() const noexcept {
    return heap_ ? heap_ : inline_;
  }
  [[nodiscard]] T* begin() noexcept { return data(); }
  [[nodiscard]] T* end() noexcept { return data() + size_; }
  [[nodiscard]] const T* begin() const noexcept { return data(); }
  [[nodiscard]] const T* end() const noexcept { return data() + size_; }
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return data()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept {
    return data()[i];
  }
  /// Errors: Errc::internal when there is no such place.
  [[nodiscard]] const T& at(std::size_t i) const {
    require(i < size_, Errc::internal, "inline vector",
            "has no value at that place");
    return data()[i];
  }
  [[nodiscard]] T& front() noexcept { return data()[0]; }
  [[nodiscard]] const T& front() const noexcept { return data()[0]; }
  [[nodiscard]] T& back() noexcept { return data()[size_ - 1]; }
  [[nodiscard]] const T& back() const noexcept { return data()[size_ - 1]; }

  void reserve(std::size_t capacity) {
    if (capacity > capacity_) {
      T* const larger = new T[capacity];
      std::copy(begin(), end(), larger);
      delete[] heap_;
      heap_ = larger;
      capacity_ = static_cast<std::uint32_t>(capacity);
    }
  }
  void push_back(T value) {
    if (size_ == capacity_) {
      reserve(std::size_t{2} * capacity_);
    }
    data()[size_++] = value;
  }
  template <typename... Args>
  T& emplace_back(Args&&... args) {
    push_back(T{std::forward<Args>(args)...});
    return back();
  }
  /// New places hold T{}.
  void resize(std::size_t size) {
    reserve(size);
    if (size > size_) {
      std::fill(data() + size_, data() + size, T{});
    }
    size_ = static_cast<std::uint32_t>(size);
  }
  void clear() noexcept { size_ = 0; }
  T* erase(T* first, T* last) noexcept {
    const T* const rest = std::move(last, end(), first);
    size_ = static_cast<std::uint32_t>(rest - data());
    return first;
  }
  T* erase(T* place) noexcept { return erase(place, place + 1); }
  template <std::input_iterator Iterator>
  void append(Iterator first, Iterator last) {
    for (; first != last; ++first) {
      push_back(*first);
    }
  }

  friend bool operator==(const InlineVector& a, const InlineVector& b) {
    return std::ranges::equal(a, b);
  }

 private:
  template <typename Range>
  void assign(const Range& values) {
    size_ = 0;
    reserve(std::ranges::size(values));
    std::ranges::copy(values, data());
    size_ = static_cast<std::uint32_t>(std::ranges::size(values));
  }
  void take(InlineVector& other) noexcept {
    heap_ = std::exchange(other.heap_, nullptr);
    capacity_ = std::exchange(other.capacity_, std::uint32_t{N});
    size_ = std::exchange(other.size_, std::uint32_t{0});
    if (heap_ == nullptr) {
      copy_inline(other);
    }
  }
  /// A few registers, instead of a call with a length.
  void copy_inline(const InlineVector& other) noexcept {
    std::memcpy(inline_, other.inline_, sizeof(inline_));
  }
  void release() noexcept {
    delete[] heap_;
    heap_ = nullptr;
    capacity_ = N;
    size_ = 0;
  }

  T* heap_ = nullptr;
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = N;
  T inline_[N] = {};  ///< all of it is copied, used or not
};

}  // namespace troupe

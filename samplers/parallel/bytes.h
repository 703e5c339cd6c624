#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "samplers/parallel/method_row.h"
#include "samplers/parallel/op_row.h"

namespace troupe::samplers {

/// Appends numbers to a compact snapshot: seven bits a byte, low ones first. It
/// begins with the method's name, its format and what it was made with, and
/// ends with the XXH3-64 of all that.
///
/// Its functions are named as those of ByteReader, so that a template can list
/// the numbers of a value once, for both.
class ByteWriter {
 public:
  ByteWriter(MethodKind kind, std::initializer_list<int> made_with) {
    const std::string name = to_string(kind);
    number(name.size());
    bytes_.append(name);
    number(kind->snapshot_format);
    for (const int value : made_with) {
      number(value);
    }
  }
  /// An integer that is not negative, or an enumerator.
  template <typename T>
  void number(T number, std::type_identity_t<T> /*largest*/ = {}) {
    auto value = static_cast<std::uint64_t>(number);
    while (value >= 0x80U) {
      bytes_.push_back(static_cast<char>(0x80U | (value & 0x7fU)));
      value >>= 7U;
    }
    bytes_.push_back(static_cast<char>(value));
  }
  void number(double number) {
    const auto bits = std::bit_cast<std::array<char, sizeof(number)>>(number);
    bytes_.append(bits.data(), bits.size());
  }
  void number(Op op) { number(op.number()); }
  /// How many items there are.
  template <typename Items>
  void length(const Items& items) {
    number(items.size());
  }
  [[nodiscard]] std::string take() {
    bytes_ += hash_of(bytes_);
    return std::move(bytes_);
  }

  static constexpr int kHashBytes = 8;

 private:
  friend class ByteReader;
  [[nodiscard]] static std::string hash_of(std::string_view content) {
    const std::uint64_t hash = xxh3_64(std::as_bytes(std::span(content)));
    const auto bytes = std::bit_cast<std::array<char, kHashBytes>>(hash);
    return {bytes.begin(), bytes.end()};
  }

  std::string bytes_;
};

/// Reads what ByteWriter wrote for the same method.
/// Errors: Errc::corrupt_file when the bytes were changed, end early, go on too
/// long, belong to another method, format or run, or a number is larger than
/// the caller allows.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, MethodKind kind,
             std::initializer_list<int> made_with)
      : bytes_(bytes) {
    constexpr std::size_t kHashBytes = ByteWriter::kHashBytes;
    require(bytes.size() >= kHashBytes, Errc::corrupt_file, "snapshot",
            "ends early");
    bytes_.remove_suffix(kHashBytes);
    require(bytes.substr(bytes_.size()) == ByteWriter::hash_of(bytes_),
            Errc::corrupt_file, "snapshot", "was changed or cut");
    const std::string begin = ByteWriter(kind, made_with).bytes_;
    require(bytes_.starts_with(begin), Errc::corrupt_file, "snapshot",
            "belongs to another method or run, or to another version");
    bytes_.remove_prefix(begin.size());
  }

  /// An enumerator needs its largest value.
  template <typename T>
  void number(T& value,
              std::type_identity_t<T> largest = std::numeric_limits<T>::max()) {
    value = static_cast<T>(next(static_cast<std::uint64_t>(largest)));
  }
  void number(double& value) {
    std::array<char, sizeof(value)> bits{};
    require(bytes_.size() >= bits.size(), Errc::corrupt_file, "snapshot",
            "ends early");
    bytes_.copy(bits.data(), bits.size());
    bytes_.remove_prefix(bits.size());
    value = std::bit_cast<double>(bits);
  }
  void number(Op& op) {
    op = Op(kOpTable[static_cast<std::size_t>(next(kOpTable.size() - 1))]);
  }
  /// Makes as many items as were written.
  template <typename Items>
  void length(Items& items) {
    items.resize(count());
  }
  /// A count of items of at least one byte each, so never more than are left.
  [[nodiscard]] std::size_t count() {
    const std::uint64_t count = next();
    require(count <= bytes_.size(), Errc::corrupt_file, "snapshot",
            "ends early");
    return count;
  }
  void expect_end() const {
    require(bytes_.empty(), Errc::corrupt_file, "snapshot",
            "has bytes after its end");
  }

 private:
  [[nodiscard]] std::uint64_t next(std::uint64_t largest = UINT64_MAX) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      require(!bytes_.empty(), Errc::corrupt_file, "snapshot", "ends early");
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
      if ((byte & 0x80U) == 0) {
        require(value <= largest, Errc::corrupt_file, "snapshot",
                "a number is out of range");
        return value;
      }
    }
    throw Error(Errc::corrupt_file, "snapshot", "a number is too long");
  }

  std::string_view bytes_;
};

/// Transfers the values in turn: numbers up to the limits of their types, and
/// vectors of them.
template <typename Bytes, typename... Values>
void transfer_all(Bytes& bytes, Values&... values) {
  const auto transfer = [&bytes]<typename Value>(Value& value) {
    if constexpr (std::ranges::range<Value>) {
      bytes.length(value);
      for (auto& number : value) {
        bytes.number(number);
      }
    } else {
      bytes.number(value);
    }
  };
  (transfer(values), ...);
}

}  // namespace troupe::samplers

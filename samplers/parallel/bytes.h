#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/core/error.h"
#include "samplers/parallel/method_row.h"

namespace troupe::samplers {

/// Appends numbers to a compact snapshot: seven bits a byte, low ones first. It
/// begins with the method's name, its format and what it was made with.
class ByteWriter {
 public:
  ByteWriter(MethodKind kind, std::initializer_list<std::uint64_t> made_with) {
    number(kind->name.size());
    bytes_.append(kind->name);
    number(kind->snapshot_format);
    for (const std::uint64_t value : made_with) {
      number(value);
    }
  }
  void number(std::uint64_t value) {
    while (value >= 0x80U) {
      bytes_.push_back(static_cast<char>(0x80U | (value & 0x7fU)));
      value >>= 7U;
    }
    bytes_.push_back(static_cast<char>(value));
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what ByteWriter wrote for the same method.
/// Errors: Errc::corrupt_file when the bytes end early, go on too long, belong
/// to another method, format or run, or a number is larger than the caller
/// allows.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, MethodKind kind,
             std::initializer_list<std::uint64_t> made_with)
      : bytes_(bytes) {
    const std::size_t length = count();
    const std::string_view name = bytes_.substr(0, length);
    bytes_.remove_prefix(length);
    bool fits = name == kind->name && number() == kind->snapshot_format;
    for (const std::uint64_t value : made_with) {
      fits = fits && number() == value;
    }
    require(fits, Errc::corrupt_file, "snapshot",
            "belongs to another method or run, or to another version");
  }

  [[nodiscard]] std::uint64_t number(std::uint64_t largest = UINT64_MAX) {
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
  template <typename T>
  [[nodiscard]] T small(std::uint64_t largest) {
    return static_cast<T>(number(largest));
  }
  /// A count of items of at least one byte each, so never more than are left.
  [[nodiscard]] std::size_t count() { return number(bytes_.size()); }
  void expect_end() const {
    require(bytes_.empty(), Errc::corrupt_file, "snapshot",
            "has bytes after its end");
  }

 private:
  std::string_view bytes_;
};

}  // namespace troupe::samplers

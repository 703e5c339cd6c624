#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe {

/// XXH3-64 of the bytes.
[[nodiscard]] std::uint64_t xxh3_64(std::span<const std::byte> bytes);

/// XXH3-64 of bytes that come in pieces. Thread: one.
class Xxh3Stream {
 public:
  Xxh3Stream();
  ~Xxh3Stream();
  Xxh3Stream(const Xxh3Stream&) = delete;
  Xxh3Stream& operator=(const Xxh3Stream&) = delete;

  void update(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Sixteen lower-case hexadecimal digits.
[[nodiscard]] std::string to_hex(std::uint64_t value);

}  // namespace troupe

#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "net/link.h"

namespace troupe::actors {

/// Messages of any size to one peer, in order. A link takes records of limited
/// size, and only so many at a time: long messages are split, and what has no
/// room waits here. Thread: any.
class Outbox {
 public:
  /// Keeps a reference.
  Outbox(net::Hub& hub, net::PeerId peer) : hub_(hub), peer_(peer) {}

  /// Never waits. What is for a peer that has gone is dropped.
  void send(const std::string& message);
  /// The link has room again.
  void on_room();
  /// Bytes that the link has had no room for.
  [[nodiscard]] std::size_t num_waiting() const;

 private:
  void flush();

  net::Hub& hub_;
  net::PeerId peer_;
  mutable std::mutex mutex_;
  std::deque<net::SharedBytes> waiting_;  ///< records
  std::size_t num_waiting_ = 0;           ///< their bytes
};

/// Joins what an Outbox split. Thread: one.
class Assembler {
 public:
  /// The whole message, with its last record. Errors: Errc::corrupt_file for
  /// more than `most` bytes, and for a record that no Outbox makes.
  [[nodiscard]] std::optional<std::string> add(
      std::span<const std::byte> record, std::size_t most);

 private:
  std::string message_;
};

}  // namespace troupe::actors

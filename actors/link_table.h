#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "kernels/core/clock.h"

namespace troupe::actors {

/// How fast messages and values get from one process to another.
struct LinkPace {
  Duration round_trip{};  ///< of a message and its answer
  /// In each direction; 0: not known.
  double bytes_per_second = 0;

  friend bool operator==(const LinkPace&, const LinkPace&) = default;
};

/// "0.031", "3.1", "310".
[[nodiscard]] std::string two_digits(double number);
/// "2 Mbit/s, 40 ms".
[[nodiscard]] std::string to_string(const LinkPace& pace);

/// The measured links of a job's processes. A link between two workers'
/// processes that was not measured is taken to be like the slower one of their
/// links to the coordinator's process.
/// Cost: logarithmic in links. Thread: one.
class LinkTable {
 public:
  void set(int process, int other, const LinkPace& pace);
  /// The process has left.
  void remove(int process);

  [[nodiscard]] bool empty() const noexcept { return links_.empty(); }
  [[nodiscard]] LinkPace between(int process, int other) const;
  /// Of any link to the coordinator's process.
  [[nodiscard]] Duration longest_round_trip() const;
  /// Seconds until a value is there that was asked for before. 0: within a
  /// host, or not known. A round trip alone may be long because a host is busy.
  [[nodiscard]] double seconds(int from, int to, std::uint64_t bytes) const;

 private:
  [[nodiscard]] std::optional<LinkPace> find(int process, int other) const;

  std::map<std::pair<int, int>, LinkPace> links_;  ///< the lesser number first
};

}  // namespace troupe::actors

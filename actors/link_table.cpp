#include "actors/link_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "actors/coordinator_events.h"

namespace troupe::actors {

std::string two_digits(double number) {
  constexpr double kTwoDigits = 10;
  return number < kTwoDigits ? fmt::format("{:.2g}", number)
                             : fmt::format("{:.0f}", number);
}

std::string to_string(const LinkPace& pace) {
  constexpr double kBitsPerByte = 8;
  constexpr double kMega = 1e6;
  const std::chrono::duration<double, std::milli> trip = pace.round_trip;
  const std::string rate =
      pace.bytes_per_second > 0
          ? two_digits(pace.bytes_per_second * kBitsPerByte / kMega) +
                " Mbit/s, "
          : "";
  return rate + two_digits(trip.count()) + " ms";
}

void LinkTable::set(int process, int other, const LinkPace& pace) {
  links_[std::minmax(process, other)] = pace;
}

void LinkTable::remove(int process) {
  std::erase_if(links_, [process](const auto& link) {
    return link.first.first == process || link.first.second == process;
  });
}

std::optional<LinkPace> LinkTable::find(int process, int other) const {
  const auto found = links_.find(std::minmax(process, other));
  return found == links_.end() ? std::nullopt : std::optional(found->second);
}

LinkPace LinkTable::between(int process, int other) const {
  if (process == other) {
    return {};
  }
  if (const auto measured = find(process, other)) {
    return *measured;
  }
  if (process == kHomeProcess || other == kHomeProcess) {
    return {};
  }
  LinkPace slower;
  for (const int end : {process, other}) {
    const LinkPace one = between(kHomeProcess, end);
    slower.round_trip = std::max(slower.round_trip, one.round_trip);
    if (one.bytes_per_second > 0) {
      slower.bytes_per_second =
          slower.bytes_per_second == 0
              ? one.bytes_per_second
              : std::min(slower.bytes_per_second, one.bytes_per_second);
    }
  }
  return slower;
}

Duration LinkTable::longest_round_trip() const {
  Duration longest{};
  for (const auto& [ends, pace] : links_) {
    if (ends.first == kHomeProcess) {
      longest = std::max(longest, pace.round_trip);
    }
  }
  return longest;
}

double LinkTable::seconds(int from, int to, std::uint64_t bytes) const {
  const LinkPace pace = between(from, to);
  if (pace.bytes_per_second == 0) {
    return 0;
  }
  const std::chrono::duration<double> way = pace.round_trip / 2;
  return way.count() + static_cast<double>(bytes) / pace.bytes_per_second;
}

}  // namespace troupe::actors

#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>

#include "actors/grant.h"

namespace troupe::actors {

/// What a trace shows: the newest spans, `most` of them. Older ones are
/// dropped, and counted.
class SpanLog {
 public:
  /// So many take 80 MB, and their text 200 MB.
  static constexpr std::size_t kMost = 1'000'000;

  explicit SpanLog(std::size_t most = kMost) : most_(most) {}

  void add(const TraceSpan& span) {
    spans_.push_back(span);
    if (spans_.size() > most_) {
      spans_.pop_front();
      ++num_dropped_;
    }
  }
  [[nodiscard]] const std::deque<TraceSpan>& spans() const noexcept {
    return spans_;
  }
  [[nodiscard]] std::uint64_t num_dropped() const noexcept {
    return num_dropped_;
  }

 private:
  std::size_t most_;
  std::deque<TraceSpan> spans_;
  std::uint64_t num_dropped_ = 0;
};

/// A timeline in the Chrome trace format, as Perfetto and chrome://tracing
/// read it: one track per worker, one bar per span with what ran as its name
/// and sample, step, segment and rows as arguments. Times count from `start`.
/// Source: "Trace Event Format", the "X" (complete) and "M" (metadata) events.
[[nodiscard]] std::string trace_json(const std::deque<TraceSpan>& spans,
                                     TimePoint start);

/// Whether the file begins as trace_json's texts do. Errors: Errc::io.
[[nodiscard]] bool is_trace(const std::filesystem::path& path);

}  // namespace troupe::actors

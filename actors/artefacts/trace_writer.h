#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/grant.h"

namespace troupe::actors {

/// A value that moved to another process or device: from the span that made the
/// value to a span that read it.
struct TraceArrow {
  const TraceSpan* from = nullptr;  ///< made it
  const TraceSpan* to = nullptr;    ///< read it
  ReadValue value;
};

/// The most that a trace holds. So many take 100 MB, and their text 270 MB.
struct TraceLimits {
  std::size_t spans = 1'000'000;
  std::size_t made = 1'000'000;  ///< values
  std::size_t reads = 250'000;   ///< of values that moved: arrows, at most
};

/// What a trace shows: the newest spans, and the newest values at their ends.
/// Older ones are dropped, and counted. Thread: one.
class TraceLog {
 public:
  explicit TraceLog(const TraceLimits& most = {}) : most_(most) {}

  /// A worker's passes come in their order. Where they overlap, by errors of
  /// another host's clock, the later one is drawn from the end of the earlier.
  void add(const TracePass& pass);

  [[nodiscard]] const std::deque<TraceSpan>& spans() const noexcept {
    return spans_;
  }
  [[nodiscard]] std::size_t num_reads() const noexcept { return reads_.size(); }
  [[nodiscard]] std::uint64_t num_dropped() const noexcept {
    return num_dropped_;
  }
  [[nodiscard]] std::uint64_t num_dropped_reads() const noexcept {
    return num_dropped_reads_;
  }
  /// By their readers. Of a value that was made twice, because a worker was
  /// lost, the newest that had been made when it was read. Valid until `add`.
  [[nodiscard]] std::vector<TraceArrow> arrows() const;
  /// The most bytes that a log and its text take after so many tasks, if each
  /// task makes a value that moves.
  [[nodiscard]] static double most_bytes(double tasks);

 private:
  struct Made {
    ValueName name;
    std::uint64_t span = 0;  ///< counted from the first that was added
  };
  struct Read {
    ReadValue value;
    std::uint64_t span = 0;
  };
  /// Null: it was dropped.
  [[nodiscard]] const TraceSpan* find(std::uint64_t span) const;

  TraceLimits most_;
  std::deque<TraceSpan> spans_;
  std::deque<Made> made_;
  std::deque<Read> reads_;
  std::map<int, TimePoint> ends_;  ///< by worker: of its last span
  std::uint64_t num_dropped_ = 0;
  std::uint64_t num_dropped_reads_ = 0;
};

/// A process of a trace.
struct TraceProcess {
  int process = 0;
  std::string name;
  /// By how much its bars may be drawn too early or too late; nothing: it is
  /// not known.
  std::optional<Duration> clock_error = Duration{};
};

/// A timeline in the Chrome trace format, as Perfetto and chrome://tracing
/// read it: one group per process, in it one track per worker with its device,
/// one bar per span with what ran as its name and sample, step, segment and
/// rows as arguments, one arrow per value that moved with its name and bytes.
/// No arrow goes back in time: where clocks are wrong by more than the time
/// between two bars, it is drawn as an instant. Process p has number p + 1, a
/// worker its own. Times count from `start`.
/// Source: "Trace Event Format", the "X" (complete), "M" (metadata), "s" and
/// "f" (flow) events.
[[nodiscard]] std::string trace_json(const TraceLog& log,
                                     std::span<const TraceProcess> processes,
                                     TimePoint start);
/// Bytes of the text, about.
[[nodiscard]] std::uint64_t trace_bytes(std::size_t spans, std::size_t arrows);

/// Whether the file begins as trace_json's texts do. Errors: Errc::io.
[[nodiscard]] bool is_trace(const std::filesystem::path& path);

}  // namespace troupe::actors

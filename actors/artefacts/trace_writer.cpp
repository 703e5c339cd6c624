#include "actors/artefacts/trace_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <utility>

#include "actors/artefacts/output_paths.h"
#include "actors/artefacts/summary.h"

namespace troupe::actors {
namespace {

/// The first process is named right behind it.
constexpr std::string_view kOpening =
    "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
    "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":"
    "\"troupe";

double microseconds(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

TimePoint end_of(const TraceSpan& span) { return span.start + span.duration; }

/// In JSON, without quotes.
std::string quoted(const std::string& text) {
  const std::string json = dump(text);
  return json.substr(1, json.size() - 2);
}

std::string labels_of(const TraceProcess& process) {
  return process.clock_error
             ? fmt::format("clock ±{:.3f} ms",
                           microseconds(*process.clock_error) / 1000)
             : "clock not known: bars end when they were heard of";
}

class TraceText {
 public:
  TraceText(std::span<const TraceProcess> processes, TimePoint start)
      : start_(start) {
    const auto first = std::ranges::find(processes, 0, &TraceProcess::process);
    text_ = std::string(kOpening) +
            (first == processes.end() ? "" : " " + quoted(first->name)) +
            "\"}}";
    for (const TraceProcess& one : processes) {
      if (one.process != 0) {
        process_fact(one.process, "name", "name",
                     "\"troupe " + quoted(one.name) + "\"");
      }
      process_fact(one.process, "sort_index", "sort_index",
                   std::to_string(one.process));
      if (one.clock_error != Duration{}) {
        process_fact(one.process, "labels", "labels",
                     "\"" + labels_of(one) + "\"");
      }
    }
  }

  void add_track(const TraceSpan& of, int place) {
    append(
        ",\n{{\"ph\":\"M\",\"pid\":{0},\"tid\":{1},\"name\":\"thread_name\","
        "\"args\":{{\"name\":\"{2}, worker {1}\"}}}},\n{{\"ph\":\"M\","
        "\"pid\":{0},\"tid\":{1},\"name\":\"thread_sort_index\",\"args\":"
        "{{\"sort_index\":{3}}}}}",
        of.process + 1, of.worker, to_string(of.device), place);
  }

  void add_bar(const TraceSpan& span) {
    append(
        ",\n{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"name\":\"{}\","
        "\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{\"sample\":{},\"step\":{},"
        "\"segment\":{},\"rows\":{}}}}}",
        span.process + 1, span.worker, span.op->name,
        microseconds(span.start - start_), microseconds(span.duration),
        span.sample_index, span.step, span.segment, span.rows);
  }

  void add_arrow(const TraceArrow& arrow) {
    const TraceSpan& to = *arrow.to;
    // Viewers look for the bars at these times. At its end a bar is over.
    const TimePoint made =
        std::max(arrow.from->start, end_of(*arrow.from) - Duration(1));
    const TimePoint read = std::clamp(made, to.start, end_of(to));
    const auto& [name, bytes] = arrow.value;
    append(
        ",\n{{\"ph\":\"s\",\"id\":{},\"cat\":\"value\",\"name\":\"sample {} "
        "slot {}\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"args\":{{\"sample\":"
        "{},\"run\":{},\"slot\":{},\"bytes\":{}}}}}",
        ++num_arrows_, name.sample_index, name.slot, arrow.from->process + 1,
        arrow.from->worker, microseconds(std::min(made, read) - start_),
        name.sample_index, name.run, name.slot, bytes);
    append(
        ",\n{{\"ph\":\"f\",\"bp\":\"e\",\"id\":{},\"cat\":\"value\",\"name\":"
        "\"sample {} slot {}\",\"pid\":{},\"tid\":{},\"ts\":{:.3f}}}",
        num_arrows_, name.sample_index, name.slot, to.process + 1, to.worker,
        microseconds(read - start_));
  }

  [[nodiscard]] std::string finish() && {
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format,
                   std::forward<Args>(args)...);
  }
  void process_fact(int process, const char* kind, const char* key,
                    const std::string& value) {
    append(
        ",\n{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_{}\",\"args\":"
        "{{\"{}\":{}}}}}",
        process + 1, kind, key, value);
  }

  TimePoint start_;
  std::string text_;
  std::uint64_t num_arrows_ = 0;
};

}  // namespace

void TraceLog::add(const TracePass& pass) {
  const std::uint64_t number = num_dropped_ + spans_.size();
  for (const ValueName& name : pass.made) {
    made_.push_back({name, number});
  }
  for (const ReadValue& value : pass.reads) {
    reads_.push_back({value, number});
  }
  TraceSpan span = pass.span;
  TimePoint& last_end = ends_[span.worker];
  const TimePoint end = end_of(span);
  span.start = std::clamp(last_end, span.start, end);
  span.duration = end - span.start;
  last_end = std::max(last_end, end);
  spans_.push_back(span);
  if (spans_.size() > most_.spans) {
    spans_.pop_front();
    ++num_dropped_;
  }
  while (made_.size() > most_.made) {
    made_.pop_front();
  }
  while (reads_.size() > most_.reads) {
    reads_.pop_front();
    ++num_dropped_reads_;
  }
}

const TraceSpan* TraceLog::find(std::uint64_t span) const {
  return span < num_dropped_ ? nullptr
                             : &spans_[static_cast<std::size_t>(span) -
                                       static_cast<std::size_t>(num_dropped_)];
}

std::vector<TraceArrow> TraceLog::arrows() const {
  std::vector<Made> made(made_.begin(), made_.end());
  std::ranges::stable_sort(made, {}, &Made::name);
  std::vector<TraceArrow> arrows;
  for (const Read& read : reads_) {
    const TraceSpan* const to = find(read.span);
    const TraceSpan* from = nullptr;
    for (auto one =
             std::ranges::lower_bound(made, read.value.name, {}, &Made::name);
         one != made.end() && one->name == read.value.name; ++one) {
      const TraceSpan* const maker = find(one->span);
      if (maker != nullptr && to != nullptr &&
          (from == nullptr || end_of(*maker) <= to->start)) {
        from = maker;
      }
    }
    const bool has_moved = from != nullptr && (from->process != to->process ||
                                               from->device != to->device);
    if (has_moved) {
      arrows.push_back({from, to, read.value});
    }
  }
  return arrows;
}

double TraceLog::most_bytes(double tasks) {
  const auto at_most = [tasks](std::size_t most) {
    return std::min(tasks, static_cast<double>(most));
  };
  constexpr TraceLimits kMost;
  // A growing text may have allocated twice its length; sorting takes two
  // copies.
  return at_most(kMost.spans) * (sizeof(TraceSpan) +
                                 2.0 * static_cast<double>(trace_bytes(1, 0))) +
         at_most(kMost.made) * 3 * sizeof(Made) +
         at_most(kMost.reads) * (sizeof(Read) + sizeof(TraceArrow) +
                                 2.0 * static_cast<double>(trace_bytes(0, 1)));
}

std::string trace_json(const TraceLog& log,
                       std::span<const TraceProcess> processes,
                       TimePoint start) {
  TraceText text(processes, start);
  std::map<int, const TraceSpan*> workers;
  for (const TraceSpan& span : log.spans()) {
    workers[span.worker] = &span;
  }
  std::vector<const TraceSpan*> tracks;
  for (const auto& [worker, span] : workers) {
    tracks.push_back(span);
  }
  std::ranges::sort(tracks, {}, [](const TraceSpan* span) {
    return std::tuple(span->process, span->device.kind, span->device.index,
                      span->worker);
  });
  int place = 0;
  for (const TraceSpan* const track : tracks) {
    text.add_track(*track, place++);
  }
  // Behind the bars: viewers look for those when they meet an arrow.
  for (const TraceSpan& span : log.spans()) {
    text.add_bar(span);
  }
  for (const TraceArrow& arrow : log.arrows()) {
    text.add_arrow(arrow);
  }
  return std::move(text).finish();
}

std::uint64_t trace_bytes(std::size_t spans, std::size_t arrows) {
  constexpr std::uint64_t kSpan = 200;
  constexpr std::uint64_t kArrow = 280;
  return spans * kSpan + arrows * kArrow;
}

bool is_trace(const std::filesystem::path& path) {
  return first_bytes(path, kOpening.size()) == kOpening;
}

}  // namespace troupe::actors

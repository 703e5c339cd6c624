#include "actors/cli/progress_printer.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "actors/cli/json_fields.h"
#include "actors/cli/json_rows.h"

namespace troupe::actors {
namespace {

using config::ProgressKind;

constexpr int kDefaultColumns = 80;
constexpr const char* kWaits = "waits for workers";

ProgressKind resolve(ProgressKind kind, std::FILE* out) {
  if (kind != ProgressKind::automatic) {
    return kind;
  }
  return can_redraw(out) ? ProgressKind::bar : ProgressKind::plain;
}

int columns_of(std::FILE* out) {
  winsize size{};
  const bool known = ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0;
  return known && size.ws_col > 0 ? size.ws_col : kDefaultColumns;
}

/// "100 %  2/2 images".
std::string render_state(const ProgressView& view) {
  return fmt::format("{:3.0f} %  {}/{} images", std::floor(view.fraction * 100),
                     view.images_done, view.images_total);
}

/// To 1 / `parts`.
double rounded(double value, double parts) {
  return std::round(value * parts) / parts;
}

/// A line of --progress json.
struct ProgressLine {
  JobProgress job;
  double fraction = 0;
  double elapsed_seconds = 0;
};

void visit_fields(auto& visit, AnyConst<ProgressLine> auto& r) {
  visit({"event", "progress"}, std::string("progress"));
  visit({"images_done", "images that are done"}, r.job.samples_done);
  visit({"images_total", "images of this run; bench: of all its runs"},
        r.job.samples_total);
  visit({"calls_done", "network calls that are done"}, r.job.calls_done);
  visit({"calls_total", "network calls of this run; bench: of all its runs"},
        r.job.calls_total);
  visit({"fraction", "0 to 1, calls under way included"}, r.fraction);
  visit({"elapsed_seconds", "since the job began"}, r.elapsed_seconds);
  visit({"waits_for_workers",
         "no worker is there; the job goes on when one joins"},
        r.job.waits_for_workers);
}

double seconds_between(TimePoint from, TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

std::vector<JsonField> progress_json_fields() {
  return json_rows_of<ProgressLine>();
}

bool can_redraw(std::FILE* out) {
  const char* const kind = std::getenv("TERM");
  return ::isatty(::fileno(out)) != 0 &&
         (kind == nullptr || std::string_view(kind) != "dumb");
}

std::string render_seconds(double seconds) {
  const auto whole =
      static_cast<long long>(std::llround(std::max(0.0, seconds)));
  const long long hours = whole / 3600;
  const long long minutes = whole / 60 % 60;
  return hours > 0     ? fmt::format("{} h {:02} min", hours, minutes)
         : minutes > 0 ? fmt::format("{} min {:02} s", minutes, whole % 60)
                       : fmt::format("{} s", whole);
}

std::string render_bar(const ProgressView& view, int columns) {
  const std::string head =
      view.images_total == 1
          ? std::string()
          : fmt::format("{}/{} images  ", view.images_done, view.images_total);
  std::string tail = fmt::format(" {:3.0f} %", std::floor(view.fraction * 100));
  if (view.calls_per_second > 0) {
    tail += view.calls_per_second >= 1
                ? fmt::format("  {:.1f} steps/s", view.calls_per_second)
                : fmt::format("  {:.1f} s/step", 1 / view.calls_per_second);
  }
  if (view.waits_for_workers) {
    tail += std::string("  ") + kWaits;
  } else if (view.seconds_left >= 0) {
    tail += "  " + render_seconds(view.seconds_left) + " left";
  }
  constexpr int kLongest = 40;
  constexpr int kShortest = 4;
  const int room = columns - 3 - static_cast<int>(head.size() + tail.size());
  if (room < kShortest) {
    const std::string line = head + tail;
    return line.substr(0, static_cast<std::size_t>(std::max(columns - 1, 0)));
  }
  const int width = std::min(room, kLongest);
  const int filled = static_cast<int>(std::floor(view.fraction * width));
  return head + "[" + std::string(static_cast<std::size_t>(filled), '#') +
         std::string(static_cast<std::size_t>(width - filled), '.') + "]" +
         tail;
}

ProgressPrinter::ProgressPrinter(ProgressKind kind, std::FILE* out,
                                 TimePoint start)
    : kind_(resolve(kind, out)), out_(out), start_(start), last_drawn_(start) {}

ProgressPrinter::~ProgressPrinter() { finish(); }

void ProgressPrinter::update(const JobProgress& progress, TimePoint now) {
  const ProgressView view = view_of(progress, seconds_between(start_, now));
  // No other update may follow for long.
  const bool at_once = view.waits_for_workers && !waited_;
  waited_ = view.waits_for_workers;
  switch (kind_) {
    case ProgressKind::bar:
      draw_bar(view, now, at_once);
      break;
    case ProgressKind::plain:
      print_plain(view, now, at_once);
      break;
    case ProgressKind::json:
      print_json(progress, view, now, at_once);
      break;
    case ProgressKind::none:
    case ProgressKind::automatic:
      break;
  }
}

void ProgressPrinter::finish() {
  if (bar_on_screen_) {
    put("\r\x1b[K");
    bar_on_screen_ = false;
  }
  put(std::exchange(unsaid_, {}));
}

/// A reader that has gone (`2>&1 | head`) is no reason to end a job.
void ProgressPrinter::put(const std::string& text) const {
  (void)std::fwrite(text.data(), 1, text.size(), out_);
  (void)std::fflush(out_);
}

void ProgressPrinter::draw_bar(const ProgressView& view, TimePoint now,
                               bool at_once) {
  constexpr double kRedrawSeconds = 0.1;
  if (!at_once && bar_on_screen_ && view.fraction < 1 &&
      seconds_between(last_drawn_, now) < kRedrawSeconds) {
    return;
  }
  put("\r\x1b[K" + render_bar(view, columns_of(out_)));
  last_drawn_ = now;
  bar_on_screen_ = true;
}

void ProgressPrinter::print_plain(const ProgressView& view, TimePoint now,
                                  bool at_once) {
  constexpr double kLongestSilence = 30;
  constexpr double kShortestSilence = 1;
  const std::string state = render_state(view);
  std::string line = fmt::format("{}  {} elapsed", state,
                                 render_seconds(seconds_between(start_, now)));
  if (view.waits_for_workers) {
    line += std::string(", ") + kWaits;
  } else if (view.seconds_left >= 0 && view.fraction < 1) {
    line += ", " + render_seconds(view.seconds_left) + " left";
  }
  line += "\n";
  unsaid_ = state == last_said_ ? std::string() : line;
  const int tenth = static_cast<int>(std::floor(view.fraction * 10));
  const double silence = seconds_between(last_drawn_, now);
  if (!at_once && (silence < kShortestSilence ||
                   (tenth <= last_tenth_ && silence < kLongestSilence))) {
    return;
  }
  last_tenth_ = std::max(tenth, last_tenth_);
  last_drawn_ = now;
  last_said_ = state;
  unsaid_.clear();
  put(line);
}

void ProgressPrinter::print_json(const JobProgress& progress,
                                 const ProgressView& view, TimePoint now,
                                 bool at_once) {
  constexpr double kEverySeconds = 0.2;
  if (!at_once && view.fraction < 1 && progress.calls_done > 0 &&
      seconds_between(last_drawn_, now) < kEverySeconds) {
    return;
  }
  last_drawn_ = now;
  put(dump(json_of(ProgressLine{progress, rounded(view.fraction, 1e4),
                                rounded(seconds_between(start_, now), 1e3)})) +
      "\n");
}

}  // namespace troupe::actors

#pragma once

#include <cstdio>
#include <string>

#include "actors/job_status.h"
#include "config/config.h"
#include "kernels/core/clock.h"

namespace troupe::actors {

/// Whether what stands there can be drawn over: a terminal that knows escape
/// sequences.
[[nodiscard]] bool can_redraw(std::FILE* out);

/// "  3/8 images  [#####.....] 50 %  12.1 steps/s  7 s left", at most
/// `columns` wide (the bar gives way).
[[nodiscard]] std::string render_bar(const ProgressView& view, int columns);

/// "7 s", "12 min 30 s", "3 h 05 min".
[[nodiscard]] std::string render_seconds(double seconds);

/// Says how far a job is, on stderr: a bar that redraws itself at most ten
/// times a second; a line every 10 % or 30 s, at most one a second and one at
/// the end; JSON lines; or nothing. When the last worker has gone it says so at
/// once.
/// Thread: one.
class ProgressPrinter {
 public:
  /// `automatic` is a bar on a terminal and plain lines elsewhere.
  ProgressPrinter(config::ProgressKind kind, std::FILE* out, TimePoint start);
  ~ProgressPrinter();
  ProgressPrinter(const ProgressPrinter&) = delete;
  ProgressPrinter& operator=(const ProgressPrinter&) = delete;

  void update(const JobProgress& progress, TimePoint now);
  /// Clears the bar so that other lines can be written; the last plain line
  /// says how far the job came, if no line has said so yet.
  void finish();

 private:
  void put(const std::string& text) const;
  void draw_bar(const ProgressView& view, TimePoint now, bool at_once);
  void print_plain(const ProgressView& view, TimePoint now, bool at_once);
  void print_json(const JobProgress& progress, const ProgressView& view,
                  TimePoint now, bool at_once);

  config::ProgressKind kind_;
  std::FILE* out_;
  TimePoint start_;
  TimePoint last_drawn_;
  int last_tenth_ = 0;
  std::string last_said_;  ///< how far the last plain line was
  std::string unsaid_;     ///< the line of an update since; empty: nothing new
  bool bar_on_screen_ = false;
  bool waited_ = false;  ///< the last update said that no worker is there
};

/// Feeds the printer. Thread: the job's observer thread.
class ProgressObserver final : public Observer {
 public:
  explicit ProgressObserver(ProgressPrinter& printer) : printer_(printer) {}
  void on_progress(const JobProgress& progress) override {
    printer_.update(progress, SteadyClock().now());
  }

 private:
  ProgressPrinter& printer_;
};

/// What --progress and --quiet ask for.
[[nodiscard]] inline config::ProgressKind progress_kind(
    const config::Config& config) {
  return config.quiet ? config::ProgressKind::none : config.progress;
}

}  // namespace troupe::actors

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "actors/cli/progress_printer.h"

namespace troupe::actors {
namespace {

using std::chrono::seconds;

std::string printed(config::ProgressKind kind, int calls, seconds per_call,
                    int total = 0) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = ::open_memstream(&text, &size);
  {
    ManualClock clock;
    ProgressPrinter printer(kind, out, clock.now());
    for (int call = 1; call <= calls; ++call) {
      clock.advance(per_call);
      printer.update({.samples_total = 2,
                      .calls_done = call,
                      .calls_total = total > 0 ? total : calls},
                     clock.now());
    }
  }
  std::fclose(out);
  std::string result(text, size);
  std::free(text);
  return result;
}

long lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

TEST(RenderBar, FillsWithTheFraction) {
  const ProgressView view{.images_done = 1,
                          .images_total = 4,
                          .fraction = 0.5,
                          .calls_per_second = 12.34,
                          .seconds_left = 7};
  EXPECT_EQ(render_bar(view, 60),
            "1/4 images  [#######........]  50 %  12.3 steps/s  7 s left");
}

TEST(RenderBar, NeverExceedsTheTerminal) {
  const ProgressView view{.images_done = 1000,
                          .images_total = 4000,
                          .fraction = 0.999,
                          .calls_per_second = 0.2,
                          .seconds_left = 7200};
  for (int columns = 1; columns < 120; ++columns) {
    EXPECT_LT(render_bar(view, columns).size(),
              static_cast<std::size_t>(columns))
        << columns;
  }
}

TEST(RenderSeconds, HasItsUnits) {
  EXPECT_EQ(render_seconds(7.4), "7 s");
  EXPECT_EQ(render_seconds(199), "3 min 19 s");
  EXPECT_EQ(render_seconds(11940), "3 h 19 min");
}

TEST(ProgressPrinter, PrintsPlainLinesEveryTenth) {
  EXPECT_EQ(lines(printed(config::ProgressKind::plain, 100, seconds(1))), 10);
}

TEST(ProgressPrinter, PrintsPlainLinesEveryHalfMinute) {
  // Nine minutes and a half, before the first tenth of a long job is done.
  EXPECT_EQ(lines(printed(config::ProgressKind::plain, 57, seconds(10), 1000)),
            19);
}

TEST(ProgressPrinter, EndsPlainLinesWithTheFinalCount) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = ::open_memstream(&text, &size);
  {
    ManualClock clock;
    ProgressPrinter printer(config::ProgressKind::plain, out, clock.now());
    // All calls are done before the last image is decoded.
    for (const std::uint64_t done : {0U, 1U, 2U}) {
      clock.advance(seconds(1));
      printer.update({.samples_total = 2,
                      .samples_done = done,
                      .calls_done = 9,
                      .calls_total = 9},
                     clock.now());
    }
    printer.finish();
  }
  std::fclose(out);
  const std::string result(text, size);
  std::free(text);
  EXPECT_EQ(result,
            "100 %  0/2 images  1 s elapsed\n"
            "100 %  2/2 images  3 s elapsed\n");
}

/// What a job of `calls` calls in `duration` prints that ends twice.
std::string printed_in(std::chrono::milliseconds duration, int calls) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = ::open_memstream(&text, &size);
  {
    ManualClock clock;
    ProgressPrinter printer(config::ProgressKind::plain, out, clock.now());
    for (int call = 1; call <= calls; ++call) {
      clock.advance(duration / calls);
      const bool is_last = call == calls;
      printer.update({.samples_total = 1,
                      .samples_done = is_last ? 1U : 0U,
                      .calls_done = call,
                      .calls_total = calls},
                     clock.now());
    }
    printer.finish();
  }
  std::fclose(out);
  const std::string result(text, size);
  std::free(text);
  return result;
}

TEST(ProgressPrinter, PrintsAtMostALineASecondAndTheLastOneOnce) {
  using std::chrono::milliseconds;
  EXPECT_EQ(printed_in(milliseconds(400), 40),
            "100 %  1/1 images  0 s elapsed\n");
  // At 1, 2 and 2.5 seconds.
  EXPECT_EQ(lines(printed_in(milliseconds(2500), 50)), 3);
  EXPECT_EQ(lines(printed_in(milliseconds(3000), 60)), 3);
}

TEST(ProgressPrinter, MovesWithinACall) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = ::open_memstream(&text, &size);
  {
    ManualClock clock;
    ProgressPrinter printer(config::ProgressKind::bar, out, clock.now());
    for (const double under_way : {0.25, 0.5}) {
      clock.advance(seconds(1));
      printer.update({.samples_total = 1,
                      .calls_done = 0,
                      .calls_total = 1,
                      .calls_under_way = under_way},
                     clock.now());
    }
  }
  std::fclose(out);
  const std::string result(text, size);
  std::free(text);
  EXPECT_NE(result.find(" 25 %"), std::string::npos) << result;
  EXPECT_NE(result.find(" 50 %"), std::string::npos) << result;
  EXPECT_NE(result.find("2 s left"), std::string::npos) << result;
}

TEST(ProgressPrinter, SaysAtOnceThatNoWorkerIsThere) {
  using config::ProgressKind;
  for (const ProgressKind kind :
       {ProgressKind::plain, ProgressKind::bar, ProgressKind::json}) {
    char* text = nullptr;
    std::size_t size = 0;
    std::FILE* out = ::open_memstream(&text, &size);
    {
      ManualClock clock;
      ProgressPrinter printer(kind, out, clock.now());
      for (const bool waits : {false, true, true}) {
        clock.advance(std::chrono::milliseconds(waits ? 20 : 1000));
        printer.update({.samples_total = 1,
                        .calls_done = 1,
                        .calls_total = 2,
                        .waits_for_workers = waits},
                       clock.now());
      }
    }
    std::fclose(out);
    const std::string result(text, size);
    std::free(text);
    const std::string says = kind == ProgressKind::json
                                 ? "\"waits_for_workers\":true"
                                 : "waits for workers";
    const std::size_t first = result.find(says);
    EXPECT_NE(first, std::string::npos) << result;
    EXPECT_EQ(result.find(" left", first), std::string::npos) << result;
    EXPECT_EQ(result.find(says, first + 1), std::string::npos) << result;
  }
}

/// What --progress auto writes to a terminal of this kind; null: TERM is unset.
std::string printed_on(const char* kind) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) {
    return {};
  }
  std::FILE* out = std::fopen(::ptsname(terminal), "w");
  (void)(kind == nullptr ? ::unsetenv("TERM") : ::setenv("TERM", kind, 1));
  {
    ManualClock clock;
    ProgressPrinter printer(config::ProgressKind::automatic, out, clock.now());
    clock.advance(seconds(60));
    printer.update({.samples_total = 2, .calls_done = 1, .calls_total = 2},
                   clock.now());
  }
  char text[500];
  const ssize_t count = ::read(terminal, text, sizeof text);
  std::fclose(out);
  ::close(terminal);
  return {text, static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

TEST(ProgressPrinter, WritesPlainLinesWhereATerminalKnowsNoEscapes) {
  const char* const before = std::getenv("TERM");
  const std::string kept = before == nullptr ? "" : before;
  const std::string bar = printed_on("xterm");
  const std::string unknown = printed_on(nullptr);
  const std::string plain = printed_on("dumb");
  (void)(before == nullptr ? ::unsetenv("TERM")
                           : ::setenv("TERM", kept.c_str(), 1));
  if (bar.empty()) {
    GTEST_SKIP() << "this system gives no terminal";
  }
  EXPECT_NE(bar.find("\x1b[K"), std::string::npos) << bar;
  EXPECT_NE(unknown.find("\x1b[K"), std::string::npos) << unknown;
  EXPECT_EQ(plain.find('\x1b'), std::string::npos) << plain;
  EXPECT_NE(plain.find("50 %"), std::string::npos) << plain;
  EXPECT_EQ(lines(plain), 1) << plain;
}

TEST(ProgressPrinter, PrintsNothingWhenToldSo) {
  EXPECT_EQ(printed(config::ProgressKind::none, 10, seconds(60)), "");
}

TEST(ProgressPrinter, EndsABarWithAClearedLine) {
  const std::string text = printed(config::ProgressKind::bar, 10, seconds(1));
  EXPECT_TRUE(text.ends_with("\r\x1b[K"));
  EXPECT_EQ(lines(text), 0);
}

}  // namespace
}  // namespace troupe::actors

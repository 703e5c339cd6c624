// The accept rule by itself: scripted residuals, and the windows they lead to.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "kernels/core/error.h"
#include "samplers/parallel/method.h"
#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

using Window = std::pair<int, int>;

/// Plays residuals instead of arithmetic: residuals[point] is what every sweep
/// reports for that point, falling by `factor` each time. Returns the windows.
class Script {
 public:
  Script(const MethodOptions& options, int calls)
      : options_(options),
        schedule_(steps(calls)),
        method_(make_method(options_, schedule_)) {}

  /// One round; residual of the value given to each point of (begin, end].
  void round(const std::vector<double>& residuals, bool same_bytes = false) {
    const std::vector<Task> tasks = method_->ready(kWholeRound);
    windows.push_back(window_of(tasks));
    evaluations.push_back(0);
    for (const Task& task : tasks) {
      if (task.op == Op::evaluate) {
        ++evaluations.back();
        evaluated.push_back(task.from);
        method_->apply({task.id, task.version, {}});
      }
    }
    ASSERT_EQ(residuals.size(), static_cast<std::size_t>(windows.back().second -
                                                         windows.back().first));
    for (const Task& task : tasks) {
      if (task.op == Op::sweep) {
        const double residual = residuals[static_cast<std::size_t>(
            task.from - windows.back().first)];
        const bool is_same = same_bytes || residual == 0;
        method_->apply(
            {task.id, task.version, {residual, is_same ? 1.0 : 0.0}});
      }
    }
  }
  /// That the next round works on; empty at the end.
  [[nodiscard]] Window window() const {
    const int begin = method_->progress().accepted;
    const auto next = make_method(options_, schedule_);
    next->restore(method_->snapshot());
    const std::vector<Task> tasks = next->ready(kWholeRound);
    return tasks.empty() ? Window{begin, begin} : window_of(tasks);
  }
  [[nodiscard]] bool done() const { return method_->done(); }
  [[nodiscard]] Progress progress() const { return method_->progress(); }

  std::vector<Window> windows;
  std::vector<int> evaluations;
  std::vector<int> evaluated;

 private:
  static constexpr int kWholeRound = 1000;

  /// Of a round's tasks.
  static Window window_of(const std::vector<Task>& tasks) {
    Window window{std::numeric_limits<int>::max(), 0};
    for (const Task& task : tasks) {
      if (task.op == Op::sweep) {
        window.first = std::min(window.first, task.from);
        window.second = std::max(window.second, task.to);
      }
    }
    return window;
  }

  MethodOptions options_;
  Schedule schedule_;
  std::unique_ptr<Method> method_;
};

TEST(PicardAccepts, TheWholeWindowWhenAllPointsPass) {
  Script script(picard(4, 0.1), 10);
  script.round({0.05, 0.1, 0.02, 0.1});
  EXPECT_EQ(script.window(), (Window{4, 8}));
  script.round({0.05, 0.1, 0.02, 0.1});
  EXPECT_EQ(script.window(), (Window{8, 10}));
  script.round({0.05, 0.1});
  EXPECT_TRUE(script.done());
}

TEST(PicardAccepts, TheSameWindowsByBothRules) {
  for (const Accept accept : {Accept::first_failing, Accept::settled}) {
    MethodOptions options = picard(6, 0.1);
    options.accept = accept;
    Script script(options, 12);
    script.round({0.05, 0.1, 0.02, 0.1, 0.05, 0.11});
    EXPECT_EQ(script.window(), (Window{6, 12}));
    script.round({0.05, 0.2, 0.05, 0.05, 0.05, 0.05});
    EXPECT_EQ(script.window(), (Window{8, 12}));
    script.round({0.05, 0.05, 0.05, 0.05});
    EXPECT_TRUE(script.done());
  }
}

TEST(PicardAccepts, OnePointWhenTheFirstFails) {
  Script script(picard(4, 0.1), 10);
  script.round({0.2, 0.05, 0.05, 0.05});
  EXPECT_EQ(script.window(), (Window{1, 5}));
}

TEST(PicardAccepts, UpToAndWithTheFirstPointThatFails) {
  Script script(picard(4, 0.1), 10);
  script.round({0.05, 0.05, 0.11, 0.05});
  EXPECT_EQ(script.window(), (Window{3, 7}));
}

TEST(PicardAccepts, TheWholeWindowWhenOnlyTheLastFails) {
  Script script(picard(4, 0.1), 10);
  script.round({0.05, 0.05, 0.05, 9.0});
  EXPECT_EQ(script.window(), (Window{4, 8}));
}

TEST(PicardAccepts, ATailShorterThanTheWindow) {
  Script script(picard(4, 0.1), 6);
  script.round({0.05, 0.05, 0.05, 0.05});
  EXPECT_EQ(script.window(), (Window{4, 6}));
  script.round({0.2, 0.2});
  EXPECT_EQ(script.window(), (Window{5, 6}));
  script.round({0.2});
  EXPECT_TRUE(script.done());
  EXPECT_EQ(script.progress().rounds, 3);
}

TEST(PicardAccepts, ASingleCall) {
  Script script(picard(1, 0.1), 1);
  script.round({7.0});
  EXPECT_TRUE(script.done());
}

TEST(PicardAccepts, OnlyEqualBytesAtToleranceZero) {
  Script script(picard(3), 9);
  script.round({0.0, 1e-300, 0.0});
  EXPECT_EQ(script.window(), (Window{2, 5}));
}

TEST(PicardAccepts, EqualBytesWhateverTheResidual) {
  Script script(picard(3, 0.1), 9);
  script.round({5.0, 5.0, 5.0}, true);
  EXPECT_EQ(script.window(), (Window{3, 6}));
}

TEST(PicardAccepts, NoResidualThatIsNotFinite) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    for (const double tolerance : {0.0, 0.1}) {
      Script script(picard(3, tolerance), 9);
      try {
        script.round({0.01, 0.01, bad});
        FAIL() << "accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::non_finite);
        EXPECT_NE(std::string(error.what()).find("point 3"), std::string::npos);
      }
    }
  }
}

TEST(PicardEvaluates, OnlyPointsWhoseBytesChanged) {
  Script script(picard(4, 0.1), 10);
  script.round({0.2, 0.0, 0.05, 0.0});  // 2 and 4 stayed; 4 is new all the same
  EXPECT_EQ(script.window(), (Window{1, 5}));
  script.round({0.0, 0.0, 0.0, 0.0});
  EXPECT_EQ(script.evaluated,
            (std::vector<int>{0, 1, 2, 3, /*round 2*/ 1, 3, 4}));
}

TEST(PicardEvaluates, OnePointFirstForGuessesOfCleanSamples) {
  for (const InitialGuess guess :
       {InitialGuess::constant_x0, InitialGuess::linear_x0}) {
    Script script(picard(4, 0.1, guess), 10);
    script.round({0.5});
    EXPECT_EQ(script.window(), (Window{1, 5}));
    EXPECT_EQ(script.evaluations, std::vector<int>{1});
  }
}

}  // namespace
}  // namespace troupe::samplers::testing

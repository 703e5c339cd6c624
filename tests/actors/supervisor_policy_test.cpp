#include "actors/supervisor_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "actors/random.h"

namespace troupe::actors {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

const Failure kCause{Errc::internal, "test", "made to end", {}};

template <typename T>
int count(const std::vector<SupervisorCommand>& commands) {
  int n = 0;
  for (const auto& command : commands) {
    n += std::holds_alternative<T>(command) ? 1 : 0;
  }
  return n;
}

TEST(SupervisorPolicy, StartsAChildOnce) {
  SupervisorPolicy policy(3, {});
  EXPECT_EQ(count<StartChild>(policy.on(StartDue{1}, {})), 1);
  EXPECT_TRUE(policy.on(StartDue{1}, {}).empty());
}

TEST(SupervisorPolicy, StartsAChildAgainAfterADelayThatGrows) {
  SupervisorPolicy policy(1, {.first_delay = milliseconds(10)});
  ManualClock clock;
  (void)policy.on(StartDue{0}, clock.now());
  std::vector<Duration> delays;
  for (std::uint32_t epoch = 1; epoch <= 3; ++epoch) {
    const auto commands = policy.on(ChildDown{0, epoch, kCause}, clock.now());
    ASSERT_EQ(commands.size(), 2U);
    EXPECT_EQ(std::get<WorkerDown>(commands[0]).epoch, epoch);
    delays.push_back(std::get<WaitBeforeStart>(commands[1]).delay);
    const auto again = policy.on(StartDue{0}, clock.now());
    EXPECT_EQ(std::get<StartChild>(again.at(0)).epoch, epoch + 1);
  }
  EXPECT_EQ(delays, (std::vector<Duration>{milliseconds(10), milliseconds(20),
                                           milliseconds(40)}));
}

TEST(SupervisorPolicy, GivesAChildUpThatEndsTooOften) {
  SupervisorPolicy policy(2, {.max_restarts = 1});
  (void)policy.on(StartDue{0}, {});
  (void)policy.on(ChildDown{0, 1, kCause}, {});
  (void)policy.on(StartDue{0}, {});
  const auto commands = policy.on(ChildDown{0, 2, kCause}, {});
  EXPECT_EQ(count<WaitBeforeStart>(commands), 0);
  EXPECT_TRUE(std::get<WorkerDown>(commands.at(0)).gone);
}

TEST(SupervisorPolicy, GivesUpAtOnceWhatANewStartCannotMend) {
  for (const Errc code : {Errc::device_lost, Errc::unsupported}) {
    SupervisorPolicy policy(2, {});
    (void)policy.on(StartDue{0}, {});
    const auto commands = policy.on(
        ChildDown{0, 1, {code, "cuda:0", "fell off the bus", {}}}, {});
    ASSERT_EQ(commands.size(), 1U);
    const auto& down = std::get<WorkerDown>(commands[0]);
    ASSERT_TRUE(down.gone);
    EXPECT_EQ(down.gone->message, "fell off the bus");
  }
}

TEST(SupervisorPolicy, ForgetsRestartsOlderThanTheWindow) {
  SupervisorPolicy policy(1, {.max_restarts = 1, .window = minutes(1)});
  ManualClock clock;
  (void)policy.on(StartDue{0}, clock.now());
  for (std::uint32_t epoch = 1; epoch <= 5; ++epoch) {
    const auto commands = policy.on(ChildDown{0, epoch, kCause}, clock.now());
    EXPECT_EQ(count<WaitBeforeStart>(commands), 1) << epoch;
    (void)policy.on(StartDue{0}, clock.now());
    clock.advance(minutes(2));
  }
}

TEST(SupervisorPolicy, IgnoresNewsOfAnEarlierIncarnation) {
  SupervisorPolicy policy(1, {});
  (void)policy.on(StartDue{0}, {});
  (void)policy.on(ChildDown{0, 1, kCause}, {});
  (void)policy.on(StartDue{0}, {});
  EXPECT_TRUE(policy.on(ChildDown{0, 1, kCause}, {}).empty());
}

/// Children, and the test's own list of their states, under random events. Some
/// events come late or twice.
class RandomChildren {
 public:
  explicit RandomChildren(std::uint64_t seed)
      : random_(seed), policy_(kChildren, kOptions) {}

  void act() {
    now_ += milliseconds(random_.below(2000));
    const int child = random_.between(0, kChildren - 1);
    Child& one = children_.at(static_cast<std::size_t>(child));
    if (random_.chance(0.5)) {
      const auto commands = policy_.on(StartDue{child}, now_);
      ASSERT_EQ(commands.size(), one.is_running ? 0U : 1U);
      if (!std::exchange(one.is_running, true)) {
        EXPECT_EQ(std::get<StartChild>(commands[0]).epoch, ++one.epoch);
      }
      return;
    }
    const auto epoch = static_cast<std::uint32_t>(
        random_.chance(0.7) ? one.epoch : random_.below(one.epoch + 3));
    const Errc codes[] = {Errc::internal, Errc::job_failed, Errc::device_lost};
    const Failure cause{codes[random_.below(3)], "test", "made to end", {}};
    const auto commands = policy_.on(ChildDown{child, epoch, cause}, now_);
    if (!one.is_running || epoch != one.epoch) {
      EXPECT_TRUE(commands.empty());
      return;
    }
    one.is_running = false;
    ends(one, cause, commands);
  }

  [[nodiscard]] int num_given_up() const { return num_given_up_; }
  [[nodiscard]] int num_restarts() const { return num_restarts_; }

 private:
  static constexpr int kChildren = 3;
  static constexpr RestartOptions kOptions{.first_delay = milliseconds(10),
                                           .longest_delay = milliseconds(15),
                                           .max_restarts = 2,
                                           .window = std::chrono::seconds(9)};
  struct Child {
    bool is_running = false;
    std::uint32_t epoch = 0;
    std::vector<TimePoint> restarts;
  };

  void ends(Child& one, const Failure& cause,
            const std::vector<SupervisorCommand>& commands) {
    ASSERT_FALSE(commands.empty());
    const auto& down = std::get<WorkerDown>(commands[0]);
    EXPECT_EQ(down.epoch, one.epoch);
    const auto recent = std::ranges::count_if(
        one.restarts,
        [this](TimePoint t) { return now_ - t <= kOptions.window; });
    const bool stays =
        cause.code != Errc::device_lost && recent < kOptions.max_restarts;
    EXPECT_EQ(down.gone.has_value(), !stays);
    ASSERT_EQ(commands.size(), stays ? 2U : 1U);
    ++(stays ? num_restarts_ : num_given_up_);
    if (stays) {
      one.restarts.push_back(now_);
      const Duration delay = std::get<WaitBeforeStart>(commands[1]).delay;
      EXPECT_GE(delay, kOptions.first_delay);
      EXPECT_LE(delay, kOptions.longest_delay);
    }
  }

  Random random_;
  SupervisorPolicy policy_;
  TimePoint now_;
  std::array<Child, kChildren> children_;
  int num_given_up_ = 0;
  int num_restarts_ = 0;
};

TEST(SupervisorPolicy, KeepsOneIncarnationOfEachChildWhateverItHears) {
  int given_up = 0;
  int restarts = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    RandomChildren children(seed);
    for (int i = 0; i < 200; ++i) {
      children.act();
    }
    given_up += children.num_given_up();
    restarts += children.num_restarts();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
  EXPECT_GE(given_up, 100);
  EXPECT_GE(restarts, 100);
}

}  // namespace
}  // namespace troupe::actors

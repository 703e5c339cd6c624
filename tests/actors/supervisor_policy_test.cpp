#include "actors/supervisor_policy.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace troupe::actors

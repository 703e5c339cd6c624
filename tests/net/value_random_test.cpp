#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include "tests/net/value_pair.h"

namespace troupe::net {
namespace {

using namespace std::chrono_literals;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kValueSchedules = 500;
#else
constexpr std::uint64_t kValueSchedules = 10'000;
#endif

struct Totals {
  int found = 0;
  int corrupt = 0;
  int rounds = 0;  ///< schedules with more questions than values
};

[[nodiscard]] std::size_t random_size(std::mt19937_64& random) {
  const std::size_t limits[] = {100, 3000, 3000, 1'500'000};
  return random() % limits[random() % (random() % 12 == 0 ? 4 : 3)];
}

void run_values(std::uint64_t seed, Totals& totals) {
  std::mt19937_64 random(seed);
  WireFaults faults = random_faults(random);
  const TimePoint start{std::chrono::hours(1)};
  if (random() % 3 == 0) {
    faults.cuts.emplace_back(
        start + 1ms, start + std::chrono::milliseconds(random() % 3000));
  }
  ValuePair pair(seed, faults);
  std::map<FetchId, std::string> asked;
  std::map<std::string, Value> later;
  const std::size_t num_values = 1 + random() % 8;
  for (std::size_t i = 0; i < num_values; ++i) {
    const std::string key = "value " + std::to_string(i);
    const auto kind = random() % 8;
    if (kind == 0) {
      pair.never.insert(key);
    } else {
      (kind < 4 ? later : pair.values)[key] =
          make_value(random_size(random), random);
    }
    asked[pair.ask(key, std::size_t{4} << 20U)] = key;
  }
  pair.run(pair.now + std::chrono::milliseconds(random() % 400));
  // What was asked for before it was made.
  pair.values.merge(later);
  for (const auto& [want, key] : std::map(pair.open_wants)) {
    pair.answer(GiveValue{want, pair.values.at(key)});
    pair.open_wants.erase(want);
  }
  pair.run(start + 120s);
  for (const auto& [fetch, key] : asked) {
    ASSERT_TRUE(pair.ended.count(fetch) > 0) << key << " has no answer";
    const Fetched& fetched = pair.ended.at(fetch);
    if (fetched.status == FetchStatus::found) {
      EXPECT_TRUE(values_equal(fetched.value, pair.values.at(key)));
      ++totals.found;
    } else if (fetched.status == FetchStatus::corrupt) {
      EXPECT_GT(pair.wire().flipped_values(), 0) << fetched.what;
      ++totals.corrupt;
    } else {
      EXPECT_EQ(fetched.status, FetchStatus::gone) << fetched.what;
      EXPECT_TRUE(pair.never.count(key) > 0);
    }
  }
  EXPECT_EQ(pair.asker.num_open(), 0U);
  EXPECT_EQ(pair.holder.num_open(), 0U) << "what was lost is swept";
  totals.rounds += pair.num_wants > static_cast<int>(num_values) ? 1 : 0;
}

TEST(ValueRandom, BringsEveryValueOrSaysWhatIsWrongWithIt) {
  Totals totals;
  for (std::uint64_t seed = 1; seed <= kValueSchedules; ++seed) {
    run_values(seed, totals);
    if (testing::Test::HasFailure()) {
      FAIL() << "seed " << seed;
    }
  }
  EXPECT_GT(totals.found, static_cast<int>(kValueSchedules));
  EXPECT_GT(totals.corrupt, static_cast<int>(kValueSchedules) / 100);
  EXPECT_GT(totals.rounds, 0);
}

}  // namespace
}  // namespace troupe::net

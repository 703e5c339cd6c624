#include "kernels/core/value_channel.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "kernels/core/error.h"
#include "net/inproc_channel.h"

namespace troupe {
namespace {

Parcel one(float value) {
  return {{"x", Tensor::from<float>(std::array{value}, Shape{1})}};
}

/// A holder that answers at once.
template <typename Find>
net::InprocValueChannel::Holder answering(Find find) {
  return [find](const ValueName& name, const ValueChannel::Taker& taker) {
    taker(find(name));
  };
}

std::optional<Parcel> asked(ValueChannel& channel, int holder,
                            const ValueName& name) {
  int times = 0;
  std::optional<Parcel> got;
  channel.get(holder, name, [&](std::optional<Parcel> parcel) {
    ++times;
    got = std::move(parcel);
  });
  EXPECT_EQ(times, 1);
  return got;
}

TEST(InprocValueChannel, HandsOverTheSameTensorToEverybodyWhoAsks) {
  net::InprocValueChannel channel;
  const Parcel value = one(1.0F);
  channel.attach(
      3, answering([&](const ValueName& name) {
        return name == ValueName{1, 2, 3} ? std::optional(value) : std::nullopt;
      }));
  for (int i = 0; i < 3; ++i) {
    const auto got = asked(channel, 3, {1, 2, 3});
    ASSERT_TRUE(got);
    EXPECT_EQ(got->at(0).name, "x");
    EXPECT_EQ(got->at(0).tensor.data<float>(), value[0].tensor.data<float>());
  }
}

TEST(InprocValueChannel, KeepsNamesAndHoldersApart) {
  net::InprocValueChannel channel;
  for (int process : {0, 1}) {
    channel.attach(
        process, answering([process](const ValueName& name) {
          return name == ValueName{1, 2, 3}
                     ? std::optional(one(static_cast<float>(process)))
                     : std::nullopt;
        }));
  }
  EXPECT_EQ(asked(channel, 0, {1, 2, 3})->at(0).tensor.data<float>()[0], 0.0F);
  EXPECT_EQ(asked(channel, 1, {1, 2, 3})->at(0).tensor.data<float>()[0], 1.0F);
  EXPECT_FALSE(asked(channel, 0, {0, 2, 3}));
  EXPECT_FALSE(asked(channel, 0, {1, 0, 3}));
  EXPECT_FALSE(asked(channel, 0, {1, 2, 0}));
}

TEST(InprocValueChannel, AnswersForAHolderThatIsNotThere) {
  net::InprocValueChannel channel;
  EXPECT_FALSE(asked(channel, 7, {1, 2, 3}));
  channel.attach(
      7, answering([](const ValueName&) { return std::optional(one(1.0F)); }));
  EXPECT_TRUE(asked(channel, 7, {1, 2, 3}));
}

TEST(InprocValueChannel, LetsAHolderAnswerLater) {
  net::InprocValueChannel channel;
  ValueChannel::Taker kept;
  channel.attach(1, [&](const ValueName&, ValueChannel::Taker taker) {
    kept = std::move(taker);
  });
  int times = 0;
  channel.get(1, {1, 0, 0}, [&](const std::optional<Parcel>& parcel) {
    times += parcel ? 1 : 0;
  });
  EXPECT_EQ(times, 0);
  kept(one(1.0F));
  EXPECT_EQ(times, 1);
}

TEST(InprocValueChannel, RefusesANumberThatIsTaken) {
  net::InprocValueChannel channel;
  channel.attach(1, answering([](const ValueName&) { return std::nullopt; }));
  EXPECT_THROW(channel.attach(
                   1, answering([](const ValueName&) { return std::nullopt; })),
               Error);
}

TEST(InprocValueChannel, AnswersManyThreadsWhileHoldersCome) {
  net::InprocValueChannel channel;
  constexpr int kQuestions = 2000;
  constexpr int kHolders = 200;
  std::atomic<int> answers{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t n = 0; n < kQuestions; ++n) {
        const int holder = static_cast<int>(n) % kHolders;
        channel.get(
            holder, {n, 0, 0}, [&](const std::optional<Parcel>& parcel) {
              EXPECT_TRUE(!parcel || parcel->at(0).tensor.data<float>()[0] ==
                                         static_cast<float>(n));
              ++answers;
            });
      }
    });
  }
  for (int i = 0; i < kHolders; ++i) {
    channel.attach(i, answering([](const ValueName& name) {
                     return one(static_cast<float>(name.sample_index));
                   }));
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(answers, 2 * kQuestions);
  for (int i = 0; i < kHolders; ++i) {
    EXPECT_TRUE(asked(channel, i, {1, 2, 3}));
  }
}

TEST(ManualValueChannel, KeepsQuestionsUntilTheyAreAnswered) {
  ManualValueChannel channel;
  int with = 0;
  int without = 0;
  const auto count = [&](const std::optional<Parcel>& parcel) {
    ++(parcel ? with : without);
  };
  channel.get(1, {1, 0, 0}, count);
  channel.get(1, {1, 0, 0}, count);
  channel.get(2, {1, 0, 0}, count);
  EXPECT_EQ(channel.num_open(), 3U);
  EXPECT_EQ(with + without, 0);
  EXPECT_EQ(channel.answer(1, {1, 0, 0}, one(1.0F)), 2U);
  EXPECT_EQ(with, 2);
  EXPECT_EQ(channel.answer(1, {1, 0, 0}, one(1.0F)), 0U);
  EXPECT_EQ(channel.answer(2, {1, 0, 0}, std::nullopt), 1U);
  EXPECT_EQ(without, 1);
  EXPECT_EQ(channel.num_open(), 0U);
}

}  // namespace
}  // namespace troupe

#include "net/value_transfer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "tests/net/value_pair.h"

namespace troupe::net {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMost = std::size_t{64} << 20U;

TEST(ValueTransfer, BringsAValueInItsParts) {
  ValuePair pair(1, {});
  pair.values["a"] = {share(std::string("description")), share(std::string{}),
                      share(std::string(2'000'000, 'x'))};
  const FetchId fetch = pair.ask("a", kMost);
  pair.run(pair.now + 10ms);
  const Fetched& fetched = pair.ended.at(fetch);
  ASSERT_EQ(fetched.status, FetchStatus::found) << fetched.what;
  EXPECT_TRUE(values_equal(fetched.value, pair.values["a"]));
  for (const SharedBytes& part : fetched.value) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(part.data.get()) % 64, 0U);
  }
  EXPECT_EQ(pair.holder.num_open(), 0U) << "it lets go of the bytes";
}

TEST(ValueTransfer, BringsAValueWithoutBytes) {
  ValuePair pair(1, {});
  pair.values["none"] = {};
  pair.values["empty"] = {share(std::string{})};
  pair.ask("none", 0);
  pair.ask("empty", 0);
  pair.run(pair.now + 10ms);
  EXPECT_EQ(pair.ended.at(1).status, FetchStatus::found);
  EXPECT_EQ(pair.ended.at(1).value.size(), 0U);
  EXPECT_EQ(pair.ended.at(2).status, FetchStatus::found);
  EXPECT_EQ(pair.ended.at(2).value.size(), 1U);
}

TEST(ValueTransfer, WaitsForAValueThatIsNotMadeYet) {
  ValuePair pair(1, {});
  const FetchId fetch = pair.ask("a", kMost);
  pair.run(pair.now + 20s);
  EXPECT_TRUE(pair.ended.empty());
  ASSERT_EQ(pair.open_wants.size(), 1U);
  EXPECT_EQ(pair.num_wants, 1) << "its process is asked once";
  pair.answer(
      GiveValue{pair.open_wants.begin()->first, {share(std::string("made"))}});
  pair.run(pair.now + 1ms);
  EXPECT_EQ(pair.ended.at(fetch).status, FetchStatus::found);
}

TEST(ValueTransfer, SaysWhatIsGone) {
  ValuePair pair(1, {});
  pair.never.insert("a");
  const FetchId fetch = pair.ask("a", kMost);
  pair.run(pair.now + 10ms);
  EXPECT_EQ(pair.ended.at(fetch).status, FetchStatus::gone);
  EXPECT_EQ(pair.ended.at(fetch).what, "the holder has not got the value");
}

TEST(ValueTransfer, RefusesMoreThanWasReserved) {
  ValuePair pair(1, {});
  pair.values["a"] = {share(std::string(1001, 'x'))};
  const FetchId fetch = pair.ask("a", 1000);
  pair.run(pair.now + 10ms);
  EXPECT_EQ(pair.ended.at(fetch).status, FetchStatus::too_large);
  EXPECT_EQ(pair.holder.num_open(), 0U);
}

TEST(ValueTransfer, AllocatesNothingForSizesThatCannotBe) {
  // A hostile holder: sizes whose sum wraps around to the total.
  for (const auto& sizes : std::vector<std::vector<std::uint64_t>>{
           {~std::uint64_t{0}, 101}, {101}, {99}, {}}) {
    ValuePair pair(1, {});
    const FetchId fetch = pair.ask("a", 1000);
    std::string text(reinterpret_cast<const char*>(sizes.data()),
                     sizes.size() * sizeof(std::uint64_t));
    pair.wire().send(
        1,
        {{.kind = FrameKind::found, .a = fetch, .b = 100, .c = 1}, share(text)},
        pair.now);
    pair.run(pair.now + 1ms);
    EXPECT_EQ(pair.ended.at(fetch).status, FetchStatus::corrupt);
  }
}

TEST(ValueTransfer, IgnoresAnswersOfAnotherRound) {
  ValuePair pair(1, {});
  const FetchId fetch = pair.ask("a", 1000);
  for (const FrameKind kind : {FrameKind::found, FrameKind::gone}) {
    pair.wire().send(1, {{.kind = kind, .a = fetch, .b = 100, .c = 0}, {}},
                     pair.now);
  }
  pair.run(pair.now + 1ms);
  EXPECT_TRUE(pair.ended.empty());
}

TEST(ValueTransfer, ReportsAWrongHash) {
  ValuePair pair(1, {});
  const FetchId fetch = pair.ask("a", 1000);
  const std::uint64_t size = 3;
  pair.wire().send(
      1,
      {{.kind = FrameKind::found, .a = fetch, .b = size, .c = 1},
       share(std::string(reinterpret_cast<const char*>(&size), 8))},
      pair.now);
  pair.wire().send(1,
                   {{.kind = FrameKind::chunk,
                     .flags = kLast,
                     .a = fetch,
                     .c = 1,
                     .value_hash = 5},
                    share(std::string("abc"))},
                   pair.now);
  pair.run(pair.now + 1ms);
  ASSERT_EQ(pair.ended.at(fetch).status, FetchStatus::corrupt);
  EXPECT_NE(pair.ended.at(fetch).what.find("expected 0000000000000005"),
            std::string::npos);
}

TEST(ValueTransfer, IsLateAtItsDeadline) {
  ValuePair pair(1, {});
  pair.ask("a", kMost, 3s);
  pair.run(pair.now + 2999ms);
  EXPECT_TRUE(pair.ended.empty());
  pair.run(pair.now + 2ms);
  EXPECT_EQ(pair.ended.at(1).status, FetchStatus::late);
  EXPECT_EQ(pair.holder.num_open(), 0U) << "the holder knows";
}

TEST(ValueTransfer, IsLateWhenNothingComesForTooLong) {
  ValuePair pair(1, {});
  pair.event(AskFor{1, "a", kMost, pair.now + 1h, 5s});
  pair.run(pair.now + 4900ms);
  EXPECT_TRUE(pair.ended.empty()) << "the holder's hub answers probes";
  pair.run(pair.now + 2100ms);
  EXPECT_EQ(pair.ended.at(1).status, FetchStatus::late);
  EXPECT_EQ(pair.holder.num_open(), 0U);
}

TEST(ValueTransfer, MayTakeLongerThanItsSilenceWhilePiecesCome) {
  ValuePair pair(1, {});
  pair.event(AskFor{1, "a", kMost, pair.now + 1h, 5s});
  const auto send = [&pair](FrameHead head, std::string bytes) {
    head.a = 1;
    head.c = 1;
    pair.wire().send(1, {head, share(std::move(bytes))}, pair.now);
    pair.run(pair.now + 4s);
  };
  const std::uint64_t size = 4;
  send({.kind = FrameKind::found, .b = size},
       std::string(reinterpret_cast<const char*>(&size), 8));
  for (const std::uint64_t offset : {0U, 1U, 2U}) {
    send({.kind = FrameKind::chunk, .b = offset}, "x");
  }
  EXPECT_TRUE(pair.ended.empty()) << "sixteen seconds have passed";
  pair.run(pair.now + 4s);
  EXPECT_EQ(pair.ended.at(1).status, FetchStatus::late);
}

TEST(ValueTransfer, ForgetsAnAskerThatIsSilent) {
  ValuePair pair(1, {});
  pair.wire().send(0,
                   {{.kind = FrameKind::want,
                     .flags = kNotFound,
                     .a = 9,
                     .c = kFirstCredit,
                     .d = 1},
                    share(std::string("a"))},
                   pair.now);
  pair.run(pair.now + 10s);
  EXPECT_EQ(pair.holder.num_open(), 1U);
  pair.run(pair.now + 60s);
  EXPECT_EQ(pair.holder.num_open(), 0U);
}

TEST(ValueTransfer, EndsAllWhenThePeerIsLost) {
  ValuePair pair(1, {});
  for (std::size_t i = 0; i < kMostOpenWants + 10; ++i) {
    pair.ask("a", kMost);
  }
  pair.run(pair.now + 10ms);
  EXPECT_EQ(pair.open_wants.size(), kMostOpenWants);
  pair.event(LinkClosed{"it is lost"});
  pair.answer(LinkClosed{"it is lost"});
  EXPECT_EQ(pair.ended.size(), kMostOpenWants + 10);
  for (const auto& [fetch, fetched] : pair.ended) {
    EXPECT_EQ(fetched.status, FetchStatus::lost);
    EXPECT_EQ(fetched.what, "it is lost");
  }
  EXPECT_EQ(pair.holder.num_open(), 0U);
}

TEST(ValueTransfer, HasBoundedBytesOnTheirWay) {
  ValuePair pair(1, {.least = 50ms});
  const std::string large(20'000'000, 'x');
  for (int i = 0; i < 12; ++i) {
    pair.values[std::to_string(i)] = {share(large)};
    pair.ask(std::to_string(i), kMost);
  }
  pair.run(pair.now + 60s);
  ASSERT_EQ(pair.ended.size(), 12U);
  EXPECT_LE(pair.wire().most_bytes(),
            kMostUnderWay * kValueWindow + 12 * kFirstCredit + 100'000);
}

TEST(ValueTransfer, GivesNoHostileAskerMoreThanABoundedCredit) {
  ValuePair pair(1, {});
  pair.values["a"] = {share(std::string(40'000'000, 'x'))};
  pair.wire().send(0,
                   {{.kind = FrameKind::want,
                     .flags = kNotFound,
                     .a = 9,
                     .c = ~std::uint64_t{0},
                     .d = 1},
                    share(std::string("a"))},
                   pair.now);
  pair.run(pair.now + 1ms);
  EXPECT_LE(pair.wire().most_bytes(), 17'000'000U);
}

}  // namespace
}  // namespace troupe::net

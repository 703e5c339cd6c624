#include "actors/value_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "actors/parcels.h"
#include "samplers/noise_source.h"
#include "tests/actors/policy_company.h"
#include "tests/actors/small_tensors.h"

namespace troupe::actors {
namespace {

using samplers::SolverState;

class Stores : public testing::Test {
 protected:
  [[nodiscard]] std::shared_ptr<ValueStore> make() {
    return std::make_shared<ValueStore>(short_schedule(), noise_,
                                        Shape{1, 2, 2}, channel_);
  }
  samplers::PhiloxNoise noise_{3};
  std::shared_ptr<ManualValueChannel> channel_ =
      std::make_shared<ManualValueChannel>();
};

TEST_F(Stores, FetchWhatTheyLackAndSayWhenAllIsThere) {
  const auto store = make();
  store->open(4)->put(1, one(1));
  int times = 0;
  std::vector<RemoteValue> gone;
  store->fetch(
      std::vector<RemoteValue>{{{4, 0, 1}, 7}, {{4, 0, 2}, 7}, {{4, 0, 3}, 8}},
      [&](std::vector<RemoteValue> missing) {
        ++times;
        gone = std::move(missing);
      });
  EXPECT_EQ(channel_->num_open(), 2U) << "one was there";
  EXPECT_EQ(channel_->answer(7, {4, 0, 2}, pack(one(2))), 1U);
  EXPECT_EQ(times, 0);
  EXPECT_EQ(channel_->answer(8, {4, 0, 3}, pack(one(3))), 1U);
  EXPECT_EQ(times, 1);
  EXPECT_TRUE(gone.empty());
  EXPECT_TRUE(same(std::get<Tensor>(store->open(4)->get(3)), one(3)));
  store->fetch(std::vector<RemoteValue>{{{4, 0, 3}, 8}},
               [&](const std::vector<RemoteValue>&) { ++times; });
  EXPECT_EQ(times, 2) << "at once";
}

TEST_F(Stores, SayWhichValuesWereGone) {
  const auto store = make();
  std::optional<std::vector<RemoteValue>> gone;
  const RemoteValue lost{{4, 0, 2}, 7};
  const RemoteValue garbled{{4, 0, 3}, 8};
  store->fetch(std::vector{lost, garbled},
               [&](std::vector<RemoteValue> missing) { gone = missing; });
  (void)channel_->answer(7, lost.name, std::nullopt);
  (void)channel_->answer(8, garbled.name, Parcel{{"what", one(1)}});
  ASSERT_TRUE(gone);
  EXPECT_EQ(*gone, (std::vector{lost, garbled}));
}

TEST_F(Stores, LetAFetchedValueGoThatCameTooLate) {
  const auto store = make();
  const auto ask = [&](std::uint32_t run, samplers::Slot slot) {
    store->fetch(std::vector<RemoteValue>{{{4, run, slot}, 7}},
                 [](const std::vector<RemoteValue>&) {});
  };
  ask(0, 1);
  store->free({4, 0, {1}});
  (void)channel_->answer(7, {4, 0, 1}, pack(one(1)));
  EXPECT_FALSE(store->open(4)->find(1));
  ask(0, 2);
  store->close(4, 0);
  (void)channel_->answer(7, {4, 0, 2}, pack(one(1)));
  EXPECT_FALSE(store->open(4, 0)->find(2));
  EXPECT_FALSE(store->open(4, 1)->find(2));
  ask(1, 3);
  store->close(4);
  (void)channel_->answer(7, {4, 1, 3}, pack(one(1)));
  EXPECT_EQ(store->size(), 0U);
}

TEST_F(Stores, OutliveTheirOwnerWhileAQuestionIsOpen) {
  auto store = make();
  int times = 0;
  store->fetch(std::vector<RemoteValue>{{{4, 0, 1}, 7}},
               [&](const std::vector<RemoteValue>&) { ++times; });
  store.reset();
  (void)channel_->answer(7, {4, 0, 1}, pack(one(1)));
  EXPECT_EQ(times, 1);
}

/// What another process gets of a value: nothing yet, no value, or its tensor.
struct Given {
  int times = 0;
  std::optional<Parcel> parcel;
};

void ask(ValueStore& store, const ValueName& name, Given& given) {
  store.give(name, [&given](std::optional<Parcel> parcel) {
    ++given.times;
    given.parcel = std::move(parcel);
  });
}

TEST_F(Stores, GiveAValueToOthersAsSoonAsItIsThere) {
  const auto store = make();
  Given before;
  ask(*store, {4, 0, 1}, before);
  EXPECT_EQ(before.times, 0);
  store->open(4)->put(1, one(1));
  ASSERT_EQ(before.times, 1);
  EXPECT_TRUE(same(before.parcel->at(0).tensor, one(1)));
  Given after;
  ask(*store, {4, 0, 1}, after);
  ASSERT_EQ(after.times, 1);
  EXPECT_TRUE(same(after.parcel->at(0).tensor, one(1)));
}

TEST_F(Stores, SayThatAValueWillNotCome) {
  const auto store = make();
  Given freed;
  Given over;
  Given later;
  Given ended;
  Given left;
  ask(*store, {4, 0, 1}, freed);
  store->free({4, 0, {1}});
  EXPECT_EQ(freed.times, 1);
  ask(*store, {4, 0, 2}, over);
  store->close(4, 0);
  EXPECT_EQ(over.times, 1);
  ask(*store, {4, 0, 3}, later);
  EXPECT_EQ(later.times, 1) << "its run is over";
  ask(*store, {4, 1, 3}, ended);
  store->close(4);
  EXPECT_EQ(ended.times, 1);
  ask(*store, {5, 0, 1}, left);
  store->give_up();
  EXPECT_EQ(left.times, 1);
  for (const Given* given : {&freed, &over, &later, &ended, &left}) {
    EXPECT_FALSE(given->parcel);
  }
}

TEST_F(Stores, SayWhenAWorkerOfTheirsHasMadeAValue) {
  const auto store = make();
  std::vector<bool> heard;
  const auto wait_for = [&](samplers::Slot slot) {
    store->await({4, 0, slot}, [&](bool is_here) { heard.push_back(is_here); });
  };
  wait_for(1);
  wait_for(1);
  wait_for(2);
  EXPECT_TRUE(heard.empty());
  store->open(4)->put(1, one(1));
  EXPECT_EQ(heard, (std::vector<bool>{true, true}));
  wait_for(1);
  EXPECT_EQ(heard.size(), 3U);
  // A new run ends the wait for the one before.
  (void)store->open(4, 1);
  EXPECT_EQ(heard, (std::vector<bool>{true, true, true, false}));
}

TEST_F(Stores, MakeOneInitialStateInEveryProcess) {
  const auto a = make();
  const auto b = make();
  EXPECT_EQ(a->open(4)->size(), 0U);
  const auto state_of = [](ValueStore& store) {
    return std::get<SolverState>(store.open(4)->get(samplers::kInitialSlot));
  };
  EXPECT_TRUE(same(state_of(*a).latents, state_of(*b).latents));
  a->free({4, 0, {samplers::kInitialSlot}});
  EXPECT_FALSE(a->open(4)->find(samplers::kInitialSlot));
}

}  // namespace
}  // namespace troupe::actors

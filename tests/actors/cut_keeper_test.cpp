#include "actors/cut_keeper.h"

#include <gtest/gtest.h>

#include <future>
#include <utility>

#include "actors/parcels.h"
#include "samplers/noise_source.h"
#include "tests/actors/policy_company.h"
#include "tests/actors/small_tensors.h"

namespace troupe::actors {
namespace {

constexpr int kFar = 7;

class CutKeepers : public testing::Test {
 protected:
  /// A cut of sample 4, run 0: slot 1 is here, slot 2 elsewhere.
  [[nodiscard]] static TakeCut cut(std::uint64_t number,
                                   std::optional<std::uint64_t> last = {}) {
    TakeCut take;
    take.sample_index = 4;
    take.number = number;
    take.last = last;
    take.cut.slots = {1, 2};
    take.values = {{{4, 0, 1}, kHomeProcess}, {{4, 0, 2}, kFar}};
    return take;
  }
  /// What was gone.
  [[nodiscard]] std::vector<RemoteValue> take(
      const TakeCut& cut, const std::optional<Parcel>& answer) {
    std::promise<std::vector<RemoteValue>> said;
    keeper_.take(cut, [&said](std::vector<RemoteValue> gone) {
      said.set_value(std::move(gone));
    });
    channel_->answer(kFar, {4, 0, 2}, answer);
    return said.get_future().get();
  }

  samplers::PhiloxNoise noise_{3};
  std::shared_ptr<ManualValueChannel> channel_ =
      std::make_shared<ManualValueChannel>();
  std::shared_ptr<ValueStore> store_ = std::make_shared<ValueStore>(
      short_schedule(), noise_, Shape{1, 2, 2}, channel_);
  CutKeeper keeper_{store_};
};

TEST_F(CutKeepers, PutWhatTheyKeptUnderTheNamesOfAnotherRun) {
  store_->open(4)->put(1, one(1));
  EXPECT_TRUE(take(cut(1), pack(one(2))).empty());
  store_->free({4, 0, {1, 2}});
  keeper_.restore({4, 3, 1});
  EXPECT_TRUE(same(std::get<Tensor>(store_->open(4, 3)->get(1)), one(1)));
  EXPECT_TRUE(same(std::get<Tensor>(store_->open(4, 3)->get(2)), one(2)));
}

TEST_F(CutKeepers, KeepNothingOfACutThatIsNotWhole) {
  store_->open(4)->put(1, one(1));
  EXPECT_EQ(take(cut(1), std::nullopt),
            (std::vector<RemoteValue>{{{4, 0, 2}, kFar}}));
  EXPECT_THROW(keeper_.restore({4, 3, 1}), Error);
}

TEST_F(CutKeepers, SayWhatWasNotHere) {
  EXPECT_EQ(take(cut(1), pack(one(2))),
            (std::vector<RemoteValue>{{{4, 0, 1}, kHomeProcess}}));
}

TEST_F(CutKeepers, KeepTheLastCutUntilTheNextIsWhole) {
  store_->open(4)->put(1, one(1));
  EXPECT_TRUE(take(cut(1), pack(one(2))).empty());
  TakeCut broken = cut(2, 1);
  broken.values.push_back({{4, 0, 9}, kHomeProcess});  // nobody made it
  EXPECT_FALSE(take(broken, std::nullopt).empty());
  EXPECT_TRUE(take(cut(3, 1), pack(one(2))).empty());
  keeper_.restore({4, 3, 1});
  keeper_.restore({4, 4, 3});
}

TEST_F(CutKeepers, ForgetTheCutsBeforeTheLast) {
  store_->open(4)->put(1, one(1));
  EXPECT_TRUE(take(cut(1), pack(one(2))).empty());
  EXPECT_TRUE(take(cut(2, 1), pack(one(2))).empty());
  EXPECT_TRUE(take(cut(3, 2), pack(one(2))).empty());
  EXPECT_THROW(keeper_.restore({4, 5, 1}), Error);
}

TEST_F(CutKeepers, ForgetASampleThatHasEnded) {
  store_->open(4)->put(1, one(1));
  EXPECT_TRUE(take(cut(1), pack(one(2))).empty());
  keeper_.drop(4);
  EXPECT_THROW(keeper_.restore({4, 3, 1}), Error);
}

}  // namespace
}  // namespace troupe::actors

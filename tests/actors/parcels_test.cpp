#include "actors/parcels.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <variant>

#include "tests/actors/small_tensors.h"

namespace troupe::actors {
namespace {

using samplers::SolverState;

TEST(Parcels, BringEveryKindOfValueBack) {
  SolverState state;
  state.latents = one(1);
  state.history = {one(2), one(3)};
  state.history_calls = {7, 4};
  state.slope = one(5);
  state.order = 2;
  const auto back = unpack(pack(state));
  ASSERT_TRUE(back);
  const auto& got = std::get<SolverState>(*back);
  EXPECT_TRUE(same(got.latents, state.latents));
  ASSERT_EQ(got.history.size(), 2U);
  EXPECT_TRUE(same(got.history[0], state.history[0]));
  EXPECT_TRUE(same(got.history[1], state.history[1]));
  EXPECT_EQ(got.history_calls, state.history_calls);
  EXPECT_TRUE(got.anchor.empty());
  EXPECT_TRUE(same(got.slope, state.slope));
  EXPECT_EQ(got.order, 2);

  const auto tensor = unpack(pack(one(9)));
  EXPECT_TRUE(same(std::get<Tensor>(tensor.value()), one(9)));

  const Boundary boundary{{"image", one(1)}, {"tensor", one(2)}};
  const auto crossed = std::get<Boundary>(unpack(pack(boundary)).value());
  ASSERT_EQ(crossed.size(), 2U);
  EXPECT_EQ(crossed[1].name, "tensor");
  EXPECT_TRUE(same(crossed[1].tensor, one(2)));
}

TEST(Parcels, RefuseWhatIsNone) {
  SolverState state;
  state.latents = one(1);
  state.history = {one(2)};
  state.history_calls = {3};
  const Parcel good = pack(state);
  ASSERT_TRUE(unpack(good));
  EXPECT_FALSE(unpack({}));
  EXPECT_FALSE(unpack({{"tensor", one(1)}, {"tensor", one(1)}}));
  EXPECT_FALSE(unpack({{"other", one(1)}}));
  Parcel bad = good;
  bad[0].tensor = one(1);  // no numbers
  EXPECT_FALSE(unpack(bad));
  bad = good;
  bad.push_back({"latents", one(1)});  // twice
  EXPECT_FALSE(unpack(bad));
  bad = good;
  bad.push_back({"history", one(1)});  // without its call
  EXPECT_FALSE(unpack(bad));
  bad = good;
  bad[0].tensor = Tensor::from<std::int64_t>(
      std::array<std::int64_t, 2>{1000, 3}, Shape{2});  // no such order
  EXPECT_FALSE(unpack(bad));
  bad = good;
  bad.push_back({"anchor", one(1)});  // of order 0, with history
  EXPECT_FALSE(unpack(bad));
  bad = good;
  bad.erase(bad.begin() + 1);  // no latents
  EXPECT_FALSE(unpack(bad));
  bad = good;
  bad[0].tensor =
      Tensor::from<std::int64_t>(std::array<std::int64_t, 2>{0, -1}, Shape{2});
  EXPECT_FALSE(unpack(bad));
}

}  // namespace
}  // namespace troupe::actors

// A job's conditions as values of a link.
#include "actors/remote/link_values.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <vector>

#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

models::Condition prompt() {
  models::Condition prompt;
  prompt.add("prompt_embeds", Tensor::zeros({4, 3}, DType::bf16), 2);
  prompt.add("pooled", Tensor::from<float>(std::vector{1.0F, -0.0F}, {2}));
  return prompt;
}

TEST(ConditionOfALink, TravelsWithItsTensors) {
  for (const models::Condition& condition :
       {prompt(), models::Condition(7), models::Condition()}) {
    const Parcel came = from_link(to_link(parcel_of(condition)));
    EXPECT_EQ(condition_of(came).hash(), condition.hash());
  }
}

TEST(ConditionOfALink, IsRefusedWhereItIsNone) {
  const auto is_refused = [](const Parcel& parcel) {
    try {
      (void)condition_of(parcel);
      return false;
    } catch (const Error& error) {
      return error.code() == Errc::corrupt_file;
    }
  };
  const Parcel good = parcel_of(prompt());
  ASSERT_FALSE(is_refused(good));
  EXPECT_TRUE(is_refused({}));
  EXPECT_TRUE(is_refused({good[1], good[2]})) << "no lengths";
  EXPECT_TRUE(is_refused({good[0], good[1]})) << "a tensor is missing";
  EXPECT_TRUE(is_refused({good[0], good[1], good[1]})) << "one comes twice";
  EXPECT_TRUE(is_refused({good[0], good[1], {"pooled", {}}})) << "an empty one";
  const auto with_lengths = [&](const Tensor& lengths) {
    return is_refused({{good[0].name, lengths}, good[1], good[2]});
  };
  using Numbers = std::vector<std::int64_t>;
  EXPECT_FALSE(with_lengths(Tensor::from<std::int64_t>(Numbers{2, 0}, {2})));
  EXPECT_TRUE(with_lengths(Tensor::from<std::int64_t>(Numbers{2, 5}, {2})));
  EXPECT_TRUE(with_lengths(Tensor::from<std::int64_t>(Numbers{-1, 2}, {2})));
  EXPECT_TRUE(with_lengths(Tensor::from<std::int64_t>(Numbers{2, 2}, {2, 1})));
  EXPECT_TRUE(with_lengths(Tensor::zeros({2}, DType::f32)));
}

TEST(PaceOfALink, ComesAsItWasSentOrNotAtAll) {
  using std::chrono::milliseconds;
  const LinkPace pace{milliseconds(40), 250000.5};
  EXPECT_EQ(pace_of(to_link(pace)), pace);
  const auto comes = [](Duration trip, double rate) {
    return pace_of(to_link(LinkPace{trip, rate})).has_value();
  };
  EXPECT_TRUE(comes({}, 1));
  EXPECT_FALSE(comes(milliseconds(40), 0));
  EXPECT_FALSE(comes(milliseconds(40), -5));
  EXPECT_FALSE(comes(milliseconds(40), std::nan("")));
  EXPECT_FALSE(comes(milliseconds(-1), 5));
  EXPECT_FALSE(comes(std::chrono::minutes(2), 5));
  EXPECT_FALSE(pace_of({}));
  EXPECT_FALSE(pace_of({net::share(std::string("40/5"))}));
  const auto most = pace_of(to_link(LinkPace{milliseconds(40), INFINITY}));
  ASSERT_TRUE(most);
  EXPECT_LE(most->bytes_per_second, 1e12);
}

}  // namespace
}  // namespace troupe::actors

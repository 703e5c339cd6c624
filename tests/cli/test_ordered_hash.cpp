#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "actors/cli/ordered_hash.h"

namespace troupe::actors {
namespace {

Tensor filled(float value) {
  const std::vector<float> values(6, value);
  return Tensor::from(std::span(values), Shape({2, 3}));
}

std::string hash_of(const std::vector<float>& order) {
  Xxh3Stream hash;
  for (const float value : order) {
    const Tensor tensor = filled(value);
    hash.update(tensor.bytes());
  }
  return to_hex(hash.digest());
}

TEST(OrderedHash, IsOverIndexOrderWhateverCameFirst) {
  OrderedHash hash({3, 5, 6, 9});
  hash.add(9, filled(9));
  hash.add(5, filled(5));
  hash.add(3, filled(3));
  hash.add(6, filled(6));
  EXPECT_EQ(hash.finish(), hash_of({3, 5, 6, 9}));
}

/// Whether somebody but the caller has its bytes.
bool is_held(const Tensor& tensor) { return tensor.owner().use_count() > 1; }

TEST(OrderedHash, HoldsOnlyWhatCameTooEarly) {
  OrderedHash hash({0, 1, 2, 3, 4});
  std::vector<Tensor> tensors;
  for (const float value : {0.0F, 1.0F, 2.0F, 3.0F, 4.0F}) {
    tensors.push_back(filled(value));
  }
  hash.add(0, tensors[0]);
  EXPECT_FALSE(is_held(tensors[0]));
  hash.add(2, tensors[2]);
  hash.add(3, tensors[3]);
  EXPECT_TRUE(is_held(tensors[2]));
  EXPECT_TRUE(is_held(tensors[3]));
  hash.pass(1);  // failed
  EXPECT_FALSE(is_held(tensors[2]));
  EXPECT_FALSE(is_held(tensors[3]));
  hash.add(4, tensors[4]);
  EXPECT_FALSE(is_held(tensors[4]));
  EXPECT_EQ(hash.finish(), hash_of({0, 2, 3, 4}));
}

TEST(OrderedHash, PassesWhatNeverCame) {
  OrderedHash hash({0, 1, 2, 3});
  hash.add(3, filled(3));
  hash.add(1, filled(1));
  EXPECT_EQ(hash.finish(), hash_of({1, 3}));
}

TEST(OrderedHash, IsEmptyWhereNothingCame) {
  OrderedHash hash({0, 1});
  hash.pass(0);  // failed
  EXPECT_EQ(hash.finish(), "");
}

}  // namespace
}  // namespace troupe::actors

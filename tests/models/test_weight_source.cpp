// What a source of weights knows of the tensors that are read from it.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "models/files/weight_source.h"
#include "tests/models/helpers.h"

namespace troupe::models {
namespace {

const TensorSpec kMatrix{"block.0.weight", {8, 4}};
const TensorSpec kBias{"block.0.bias", {8}};

std::vector<std::uint64_t> hashes_of(WeightSource& weights) {
  weights.note_tensors();
  (void)weights.read(kMatrix);
  (void)weights.read_f32(kBias);
  std::vector<std::uint64_t> hashes = weights.tensor_hashes();
  std::ranges::sort(hashes);
  return hashes;
}

TEST(WeightSource, NotesAHashOfEachTensor) {
  ExecContext ctx(1);
  RandomWeights weights(ctx, 0);
  RandomWeights again(ctx, 0);
  RandomWeights others(ctx, 1);
  const auto hashes = hashes_of(weights);
  EXPECT_EQ(hashes.size(), 2U);
  EXPECT_EQ(hashes, hashes_of(again));
  for (const std::uint64_t hash : hashes_of(others)) {
    EXPECT_FALSE(std::ranges::binary_search(hashes, hash));
  }
  EXPECT_EQ(weights.hash(), again.hash());
  RandomWeights whole(ctx, 0);
  (void)whole.read(kMatrix);
  (void)whole.read_f32(kBias);
  EXPECT_EQ(whole.hash(), weights.hash()) << "the hash of all is as it was";
  EXPECT_TRUE(whole.tensor_hashes().empty());
}

TEST(WeightSource, IsHeldToTheHashesOfTensors) {
  ExecContext ctx(1);
  RandomWeights weights(ctx, 0);
  const auto hashes = hashes_of(weights);
  RandomWeights part(ctx, 0);
  part.hold_to(hashes);
  (void)part.read(kBias);
  const TensorSpec unknown{"block.1.bias", {8}};
  EXPECT_EQ(error_of([&] { (void)part.read(unknown); }).place(), unknown.name);
  RandomWeights others(ctx, 1);
  others.hold_to(hashes);
  const Error error = error_of([&] { (void)others.read(kMatrix); });
  EXPECT_EQ(error.code(), Errc::invalid_argument);
  EXPECT_EQ(error.place(), kMatrix.name);
  RandomWeights nothing(ctx, 0);
  nothing.hold_to({});
  EXPECT_EQ(error_of([&] { (void)nothing.read(kBias); }).code(),
            Errc::invalid_argument);
}

}  // namespace
}  // namespace troupe::models

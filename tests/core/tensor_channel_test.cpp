#include "kernels/core/tensor_channel.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/core/error.h"
#include "net/inproc_channel.h"

namespace troupe {
namespace {

TensorPtr one(float value) {
  return std::make_shared<const Tensor>(
      Tensor::from<float>(std::array{value}, Shape{1}));
}

TEST(InprocTensorChannel, HandsOverTheSamePointer) {
  net::InprocTensorChannel channel;
  const TensorPtr tensor = one(1.0F);
  channel.put({1, 2, 3}, tensor);
  EXPECT_EQ(channel.try_take({1, 2, 3}).value(), tensor);
}

TEST(InprocTensorChannel, KeepsTagsApart) {
  net::InprocTensorChannel channel;
  channel.put({1, 2, 3}, one(1.0F));
  EXPECT_FALSE(channel.try_take({0, 2, 3}).has_value());
  EXPECT_FALSE(channel.try_take({1, 0, 3}).has_value());
  EXPECT_FALSE(channel.try_take({1, 2, 0}).has_value());
  EXPECT_TRUE(channel.try_take({1, 2, 3}).has_value());
}

TEST(InprocTensorChannel, DropsDuplicatesBeforeAndAfterTheTaking) {
  net::InprocTensorChannel channel;
  const TensorPtr first = one(1.0F);
  channel.put({1, 0, 0}, first);
  channel.put({1, 0, 0}, one(2.0F));
  EXPECT_EQ(channel.try_take({1, 0, 0}).value(), first);
  channel.put({1, 0, 0}, one(3.0F));
  EXPECT_FALSE(channel.try_take({1, 0, 0}).has_value());
}

TEST(InprocTensorChannel, LetsGoOfATakenTensor) {
  net::InprocTensorChannel channel;
  TensorPtr tensor = one(1.0F);
  channel.put({1, 0, 0}, tensor);
  (void)channel.try_take({1, 0, 0});
  EXPECT_EQ(tensor.use_count(), 1);
}

TEST(InprocTensorChannel, ForgetsOneSampleOnly) {
  net::InprocTensorChannel channel;
  for (std::uint32_t sample = 0; sample < 3; ++sample) {
    for (std::uint32_t slot = 0; slot < 4; ++slot) {
      channel.put({sample, slot, 7}, one(1.0F));
    }
  }
  (void)channel.try_take({1, 0, 7});
  EXPECT_EQ(channel.num_tags(), 12U);
  channel.forget(1);
  EXPECT_EQ(channel.num_tags(), 8U);
  EXPECT_FALSE(channel.try_take({1, 1, 7}).has_value());
  EXPECT_TRUE(channel.try_take({0, 3, 7}).has_value());
  EXPECT_TRUE(channel.try_take({2, 0, 7}).has_value());
}

TEST(InprocTensorChannel, RefusesNoTensor) {
  net::InprocTensorChannel channel;
  EXPECT_THROW(channel.put({}, nullptr), Error);
}

TEST(InprocTensorChannel, DeliversOnceToManyTakers) {
  net::InprocTensorChannel channel;
  constexpr std::uint64_t kCount = 500;
  std::atomic<std::uint64_t> taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t v = 0; v < kCount; ++v) {
        channel.put({0, 0, v}, one(static_cast<float>(v)));
      }
    });
    threads.emplace_back([&] {
      for (std::uint64_t v = 0; taken < kCount; v = (v + 1) % kCount) {
        if (const auto tensor = channel.try_take({0, 0, v})) {
          EXPECT_EQ((*tensor)->span<float>()[0], static_cast<float>(v));
          ++taken;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(taken, kCount);
}

TEST(ManualTensorChannel, HoldsBackUntilReleased) {
  ManualTensorChannel channel;
  const TensorPtr tensor = one(1.0F);
  channel.put({1, 0, 0}, tensor);
  EXPECT_EQ(channel.held(), 1U);
  EXPECT_FALSE(channel.try_take({1, 0, 0}).has_value());
  EXPECT_TRUE(channel.deliver({1, 0, 0}));
  EXPECT_EQ(channel.held(), 0U);
  EXPECT_EQ(channel.try_take({1, 0, 0}).value(), tensor);
  EXPECT_FALSE(channel.deliver({1, 0, 0}));
}

TEST(ManualTensorChannel, DropsDuplicatesAndForgets) {
  ManualTensorChannel channel;
  channel.put({1, 0, 0}, one(1.0F));
  channel.put({1, 0, 0}, one(2.0F));
  EXPECT_EQ(channel.held(), 1U);
  EXPECT_TRUE(channel.deliver({1, 0, 0}));
  EXPECT_EQ((*channel.try_take({1, 0, 0}))->span<float>()[0], 1.0F);
  channel.put({1, 0, 0}, one(3.0F));
  EXPECT_EQ(channel.held(), 0U);
  channel.forget(1);
  channel.put({1, 0, 0}, one(4.0F));
  EXPECT_EQ(channel.held(), 1U);
}

}  // namespace
}  // namespace troupe

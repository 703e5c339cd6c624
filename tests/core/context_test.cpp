#include "kernels/core/context.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "kernels/core/device_backend.h"
#include "kernels/core/error.h"

namespace troupe {
namespace {

std::uintptr_t address(const Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.bytes().data());
}

// A pass over a shape: several takes in nested scopes, together more than the
// first chunk. Returns the addresses.
std::vector<std::uintptr_t> pass(Workspace& workspace) {
  const Workspace::Scope outer(workspace);
  std::vector<std::uintptr_t> addresses;
  addresses.push_back(address(workspace.take(Shape{3, 5}, DType::f32)));
  for (int i = 0; i < 3; ++i) {
    const Workspace::Scope inner(workspace);
    addresses.push_back(address(workspace.take(Shape{700001}, DType::f32)));
    addresses.push_back(address(workspace.take(Shape{1300, 1000}, DType::u8)));
  }
  addresses.push_back(address(workspace.take(Shape{7}, DType::i64)));
  return addresses;
}

TEST(Workspace, AllocatesNothingAfterTheFirstPass) {
  Workspace workspace;
  (void)pass(workspace);
  const std::size_t capacity = workspace.capacity_bytes();
  const auto second = pass(workspace);
  EXPECT_EQ(pass(workspace), second);
  EXPECT_EQ(pass(workspace), second);
  EXPECT_EQ(workspace.capacity_bytes(), capacity);
}

TEST(Workspace, HoldsThePeakAndNoMore) {
  Workspace workspace;
  (void)pass(workspace);
  const std::size_t peak = 64 + 2800064 + 1300032;
  EXPECT_EQ(workspace.capacity_bytes(), peak);
}

TEST(Workspace, TakesAreAlignedAndDoNotOverlap) {
  Workspace workspace;
  const Workspace::Scope scope(workspace);
  std::vector<Tensor> taken;
  for (std::int64_t i = 0; i < 200; ++i) {
    taken.push_back(workspace.take(Shape{i * 97 % 30000}, DType::u8));
    const auto bytes = taken.back().bytes();
    EXPECT_EQ(address(taken.back()) % 64, 0U);
    std::memset(bytes.data(), static_cast<int>(i), bytes.size());
  }
  for (std::size_t i = 0; i < taken.size(); ++i) {
    for (const std::byte byte : taken[i].bytes()) {
      ASSERT_EQ(byte, static_cast<std::byte>(i));
    }
  }
}

TEST(Workspace, InnerScopeGivesBackOnlyItsOwn) {
  Workspace workspace;
  const Workspace::Scope outer(workspace);
  const Tensor kept = workspace.take(Shape{100}, DType::f32);
  std::uintptr_t first = 0;
  {
    const Workspace::Scope inner(workspace);
    first = address(workspace.take(Shape{100}, DType::f32));
  }
  const Tensor again = workspace.take(Shape{100}, DType::f32);
  EXPECT_EQ(address(again), first);
  EXPECT_NE(address(again), address(kept));
}

TEST(Workspace, TakesOutsideAScopeAreNeverHandedOutAgain) {
  Workspace workspace;
  Tensor kept = workspace.take(Shape{1000}, DType::u8);
  std::memset(kept.bytes().data(), 7, 1000);
  for (int i = 0; i < 3; ++i) {
    const Workspace::Scope scope(workspace);
    Tensor large = workspace.take(Shape{3 << 20}, DType::u8);
    std::memset(large.bytes().data(), 0, large.num_bytes());
    Tensor small = workspace.take(Shape{1000}, DType::u8);
    std::memset(small.bytes().data(), 0, small.num_bytes());
  }
  for (const std::byte byte : kept.bytes()) {
    ASSERT_EQ(byte, std::byte{7});
  }
}

TEST(Workspace, EmptyTakeIsAnEmptyTensorWithAnAddress) {
  Workspace workspace;
  const Workspace::Scope scope(workspace);
  const Tensor none = workspace.take(Shape{0, 4}, DType::f32);
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.shape(), (Shape{0, 4}));
  EXPECT_NE(none.bytes().data(), nullptr);
}

TEST(Workspace, SurvivesARequestThatCannotBeMet) {
  Workspace workspace;
  const Tensor before = workspace.take(Shape{4}, DType::f32);
  try {
    (void)workspace.take(Shape{std::numeric_limits<std::int64_t>::max()},
                         DType::i64);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::out_of_memory);
  }
  const Workspace::Scope scope(workspace);
  EXPECT_EQ(workspace.take(Shape{4}, DType::f32).num_elements(), 4);
}

/// A device with so much memory, and nothing that computes.
class SmallDevice final : public DeviceBackend {
 public:
  explicit SmallDevice(std::size_t bytes) : free_(bytes) {}

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    if (bytes > free_) {
      throw Error(Errc::device_full, "small device", "no room");
    }
    free_ -= bytes;
    return {new std::byte[bytes], [this, bytes](const std::byte* memory) {
              free_ += bytes;
              delete[] memory;
            }};
  }
  void copy(const Tensor& /*from*/, Tensor& /*to*/) override {}
  void copy_columns(const Tensor& /*from*/, std::int64_t /*from_first*/,
                    Tensor& /*to*/, std::int64_t /*to_first*/,
                    std::int64_t /*count*/) override {}
  Tensor read_back(const Tensor& from) override { return from; }
  std::unique_ptr<DeviceEvent> mark() override { return nullptr; }
  void wait_for(const DeviceEvent& /*event*/) override {}
  void synchronize() override {}
  void* queue() override { return nullptr; }
  bool replay(std::span<const std::uint64_t> /*key*/,
              const std::function<void()>& fn) override {
    fn();
    return true;
  }
  void between(const std::function<void()>& fn) override { fn(); }
  void forget_recordings() override {}

 private:
  std::size_t free_;
};

TEST(Workspace, TakesWhatItNeedsWhereTwiceAsMuchHasNoRoom) {
  constexpr std::size_t kMebibyte = std::size_t{1} << 20U;
  SmallDevice device(7 * kMebibyte);
  Workspace workspace({DeviceKind::cuda, 0}, &device);
  const auto take = [&workspace](std::int64_t mebibytes) {
    return workspace.take(Shape{mebibytes << 20U}, DType::u8);
  };
  const auto pass = [&] {
    const Workspace::Scope scope(workspace);
    (void)take(4);
    (void)take(2);  // the next chunk would be of 4 MiB
    EXPECT_EQ(workspace.capacity_bytes(), 6 * kMebibyte);
    EXPECT_THROW((void)take(2), Error);
  };
  pass();
  pass();
}

TEST(ExecContext, ScratchIsPerThreadAlignedAndGrows) {
  ExecContext context(3);
  std::byte* first = context.scratch(0, 100);
  std::byte* second = context.scratch(1, 100);
  EXPECT_NE(first, second);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
  EXPECT_EQ(context.scratch(0, 64), first);
  std::byte* larger = context.scratch(0, 100000);
  std::memset(larger, 1, 100000);
  EXPECT_EQ(context.scratch(0, 100000), larger);
}

TEST(ExecContext, TickCountsAndHonoursAStop) {
  ExecContext context;
  context.tick();
  context.tick();
  EXPECT_EQ(context.ticks(), 2U);
  context.request_stop();
  try {
    context.tick();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::interrupted);
  }
  context.clear_stop();
  EXPECT_NO_THROW(context.tick());
}

TEST(ExecContext, OnTheCpuAMarkHasPassed) {
  ExecContext context;
  const Tensor tensor(Shape{4}, DType::f32);
  context.keep(tensor);
  QueueMark mark = context.mark();
  EXPECT_EQ(tensor.owner().use_count(), 1);
  EXPECT_TRUE(mark.has_passed());
  mark.wait();
}

TEST(ExecContext, RefusesADeviceWithoutBackend) {
  try {
    ExecContext context(1, Device{DeviceKind::cuda, 0});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported);
  }
}

}  // namespace
}  // namespace troupe

#include "kernels/core/queue_mark.h"

#include <gtest/gtest.h>

#include <utility>

#include "kernels/core/error.h"

namespace troupe {
namespace {

/// A queue in the hands of a test.
struct ManualQueue {
  bool is_done = false;
  bool is_lost = false;
  int waits = 0;
  int moments = 0;
};

class ManualEvent final : public DeviceEvent {
 public:
  explicit ManualEvent(ManualQueue& queue) : queue_(queue) { ++queue_.moments; }
  ~ManualEvent() override { --queue_.moments; }
  ManualEvent(const ManualEvent&) = delete;
  ManualEvent& operator=(const ManualEvent&) = delete;

  bool has_passed() override {
    require(!queue_.is_lost, Errc::device_lost, "manual", "lost");
    return queue_.is_done;
  }
  void wait() override {
    require(!queue_.is_lost, Errc::device_lost, "manual", "lost");
    ++queue_.waits;
    queue_.is_done = true;
  }

 private:
  ManualQueue& queue_;
};

QueueMark mark_of(ManualQueue& queue, const Tensor& kept) {
  return {std::make_unique<ManualEvent>(queue), {kept}};
}

class QueueMarkTest : public testing::Test {
 protected:
  [[nodiscard]] long holders() const { return tensor_.owner().use_count(); }

  ManualQueue queue_;
  Tensor tensor_{Shape{2}, DType::f32};
};

TEST_F(QueueMarkTest, HoldsWhatIsKeptUntilItIsFoundToHavePassed) {
  QueueMark mark = mark_of(queue_, tensor_);
  EXPECT_FALSE(mark.has_passed());
  EXPECT_EQ(holders(), 2);
  queue_.is_done = true;
  EXPECT_EQ(holders(), 2);
  EXPECT_TRUE(mark.has_passed());
  EXPECT_EQ(holders(), 1);
  EXPECT_EQ(queue_.moments, 0);
  // It is not asked again.
  queue_.is_lost = true;
  EXPECT_TRUE(mark.has_passed());
  mark.wait();
  EXPECT_EQ(queue_.waits, 0);
}

TEST_F(QueueMarkTest, WaitsOnceAndLetsGo) {
  QueueMark mark = mark_of(queue_, tensor_);
  mark.wait();
  mark.wait();
  EXPECT_EQ(queue_.waits, 1);
  EXPECT_EQ(holders(), 1);
  EXPECT_TRUE(mark.has_passed());
}

TEST_F(QueueMarkTest, OneThatEndsEarlyWaits) {
  { const QueueMark mark = mark_of(queue_, tensor_); }
  EXPECT_EQ(queue_.waits, 1);
  EXPECT_EQ(holders(), 1);
  EXPECT_EQ(queue_.moments, 0);
}

TEST_F(QueueMarkTest, ALostDeviceIsReportedButNotWaitedFor) {
  {
    QueueMark mark = mark_of(queue_, tensor_);
    queue_.is_lost = true;
    for (int again = 0; again < 2; ++again) {
      EXPECT_THROW((void)mark.has_passed(), Error);
      EXPECT_THROW(mark.wait(), Error);
      EXPECT_EQ(holders(), 2);
    }
  }
  EXPECT_EQ(holders(), 1);
  EXPECT_EQ(queue_.moments, 0);
}

TEST_F(QueueMarkTest, Moves) {
  QueueMark mark;
  EXPECT_TRUE(mark.has_passed());
  QueueMark first = mark_of(queue_, tensor_);
  mark = std::move(first);
  EXPECT_EQ(queue_.waits, 0);
  EXPECT_EQ(holders(), 2);
  ManualQueue other;
  // Assignment waits for the old value, not for the new value.
  mark = mark_of(other, tensor_);
  EXPECT_EQ(queue_.waits, 1);
  EXPECT_EQ(other.waits, 0);
  EXPECT_EQ(holders(), 2);
  const QueueMark last(std::move(mark));
  EXPECT_EQ(other.waits, 0);
  EXPECT_EQ(holders(), 2);
}

TEST_F(QueueMarkTest, WithoutAMomentHoldsNothing) {
  QueueMark mark(nullptr, {tensor_});
  EXPECT_EQ(holders(), 1);
  EXPECT_TRUE(mark.has_passed());
}

}  // namespace
}  // namespace troupe

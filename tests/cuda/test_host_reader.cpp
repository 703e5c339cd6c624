// Values of emulated GPUs on their way to the host.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/host_reader.h"
#include "actors/value_store.h"
#include "kernels/copy.h"
#include "samplers/noise_source.h"
#include "samplers/schedule.h"
#include "tests/cuda/emulator/faults.h"

namespace troupe::actors {
namespace {

constexpr Device kGpu{DeviceKind::cuda, 0};
constexpr const char* kNewStream = "cudaStreamCreateWithFlags";

class HostReaders : public testing::Test {
 protected:
  HostReaders() { ctx_.synchronize(); }

  ExecContext ctx_{1, kGpu};
  Tensor host_ = Tensor::from<float>(std::array{1.0F, -2.0F}, Shape{2});
  Tensor there_ = kernels::on_device(ctx_, host_);
  HostReader reader_;
};

TEST_F(HostReaders, KeepTheirContextFromCopyToCopy) {
  EXPECT_TRUE(bytes_equal(reader_.read(there_), host_));
  emulator::fail_call(kNewStream, cudaErrorMemoryAllocation);
  EXPECT_TRUE(bytes_equal(reader_.read(there_), host_));
  EXPECT_TRUE(bytes_equal(reader_.read(host_), host_));
  EXPECT_THROW((void)HostReader().read(there_), Error)
      << "the call that fails was still to come";
}

TEST_F(HostReaders, BeginAnewAfterAnError) {
  emulator::fail_call(kNewStream, cudaErrorMemoryAllocation);
  EXPECT_THROW((void)reader_.read(there_), Error);
  EXPECT_TRUE(bytes_equal(reader_.read(there_), host_));
  emulator::fail_call("cudaMemcpyAsync", cudaErrorMemoryAllocation);
  EXPECT_THROW((void)reader_.read(there_), Error);
  emulator::fail_call(kNewStream, cudaErrorMemoryAllocation);
  EXPECT_THROW((void)reader_.read(there_), Error) << "the context was kept";
  EXPECT_TRUE(bytes_equal(reader_.read(there_), host_));
}

TEST_F(HostReaders, OfAStoreSayInTheLogWhyAValueIsNotGiven) {
  const samplers::Schedule schedule{samplers::ScheduleOptions{}};
  samplers::PhiloxNoise noise{3};
  const auto store =
      std::make_shared<ValueStore>(schedule, noise, Shape{1, 2, 2});
  store->open(4)->put(1, there_);
  std::vector<bool> given;
  const auto ask = [&] {
    store->give({4, 0, 1}, [&](const std::optional<Parcel>& parcel) {
      given.push_back(parcel.has_value());
    });
  };
  emulator::fail_call(kNewStream, cudaErrorMemoryAllocation);
  testing::internal::CaptureStderr();
  ask();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("(slot 1) cannot be copied: ["), std::string::npos) << log;
  ask();
  EXPECT_EQ(given, (std::vector{false, true})) << "the value is still there";
}

}  // namespace
}  // namespace troupe::actors

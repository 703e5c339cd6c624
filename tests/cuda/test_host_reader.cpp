// Values of emulated GPUs on their way to the host.

#include <gtest/gtest.h>

#include <array>

#include "actors/host_reader.h"
#include "kernels/copy.h"
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

}  // namespace
}  // namespace troupe::actors

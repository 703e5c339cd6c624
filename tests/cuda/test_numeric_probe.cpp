#include <set>

#include "kernels/numeric_probe.h"
#include "tests/cuda/support.h"

namespace troupe::kernels {
namespace {

class NumericProbeOnGpu : public CudaTest {};

TEST_F(NumericProbeOnGpu, IsTheSameEveryTimeOnGpusOfOneName) {
  const CudaDevices found = cuda_devices();
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const std::uint64_t probe = numeric_probe(dtype, kGpu);
    for (const CudaDevice& gpu : found.devices) {
      if (gpu.name == found.devices.front().name) {
        EXPECT_EQ(numeric_probe(dtype, {DeviceKind::cuda, gpu.index}), probe)
            << to_string(dtype) << " on GPU " << gpu.index;
      }
    }
  }
}

TEST_F(NumericProbeOnGpu, DiffersByTypeAndFromTheCpu) {
  const std::set<std::uint64_t> probes = {
      numeric_probe(DType::f32), numeric_probe(DType::f32, kGpu),
      numeric_probe(DType::bf16, kGpu), numeric_probe(DType::f16, kGpu)};
  EXPECT_EQ(probes.size(), 4U);
}

TEST_F(NumericProbeOnGpu, FailsOnAGpuThatIsNotThere) {
  EXPECT_THROW((void)numeric_probe(DType::f32, {DeviceKind::cuda, 1000}),
               Error);
}

}  // namespace
}  // namespace troupe::kernels

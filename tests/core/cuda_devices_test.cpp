#include <gtest/gtest.h>

#include "kernels/cuda/devices.h"

namespace troupe::kernels {
namespace {

TEST(CudaDevices, AreListedOrTheReasonIsSaid) {
  const CudaDevices found = cuda_devices();
  EXPECT_EQ(found.devices.empty(), !found.why_none.empty());
  for (std::size_t i = 0; i < found.devices.size(); ++i) {
    EXPECT_FALSE(found.devices[i].name.empty());
    EXPECT_GT(found.devices[i].memory_bytes, 0U);
    EXPECT_GE(found.devices[i].compute_major, 1);
  }
}

TEST(CudaLibraries, EachHasANameAndAVersionOrNotFound) {
  for (const LibraryVersion& library : cuda_libraries()) {
    EXPECT_FALSE(library.name.empty());
    EXPECT_FALSE(library.version.empty());
  }
}

}  // namespace
}  // namespace troupe::kernels

// libFuzzer target: any bytes as a safetensors file. Built and run by
// scripts/fuzz_safetensors.sh.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "kernels/core/error.h"
#include "models/files/safetensors.h"
#include "tests/core/allocation_guard.h"

namespace {

/// The most memory that the reader may hold for one file: a multiple of the
/// file's size, plus a constant. The map of the densest __metadata__ takes
/// about this; a header of many tensors less than twice its size.
constexpr std::size_t kMostPerByte = 16;
constexpr std::size_t kMostAnyway = 16 * 1024;

/// One file in memory, reused for all inputs.
int memory_file() {
  static const int fd = ::memfd_create("fuzz", 0);
  return fd;
}

void check_entry(const troupe::models::SafetensorsFile& file,
                 const troupe::models::SafetensorsEntry& entry,
                 std::size_t size) {
  // Tensors never claim more than the file has.
  if (entry.end < entry.begin || entry.end > size) {
    std::abort();
  }
  try {
    const troupe::Tensor tensor = file.read(entry);
    if (tensor.num_bytes() > 8 * size) {
      std::abort();
    }
    (void)file.read(entry, troupe::DType::f32);
  } catch (const troupe::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const int fd = memory_file();
  if (::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, data, size, 0) != static_cast<ssize_t>(size)) {
    std::abort();
  }
  const troupe::AllocationGuard guard(kMostPerByte * size + kMostAnyway);
  try {
    const troupe::models::SafetensorsFile file("/proc/self/fd/" +
                                               std::to_string(fd));
    for (const auto& entry : file.header().entries) {
      if (!file.find(entry.name)) {
        std::abort();
      }
      check_entry(file, entry, size);
    }
  } catch (const troupe::Error&) {
  }
  return 0;
}

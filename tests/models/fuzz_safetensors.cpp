// libFuzzer target: any bytes as a safetensors file. Built and run by
// scripts/fuzz_safetensors.sh.
#include <sanitizer/allocator_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/core/error.h"
#include "models/safetensors.h"

namespace {

/// What one file may make the reader hold at once: so many times its size, and
/// something for any file. The map of the densest __metadata__ takes about
/// this; a header of many tensors less than twice its size.
constexpr std::size_t kMostPerByte = 16;
constexpr std::size_t kMostAnyway = 16 * 1024;

/// Bytes allocated and not freed while a guard lives. Counted
/// by the sanitizer's hooks, so that its own checks of new and delete stay.
std::size_t limit = 0;  // 0: nothing is counted
std::size_t held = 0;

void count_allocation(const volatile void* /*memory*/, std::size_t size) {
  if (limit == 0) {
    return;
  }
  held += size;
  if (held > limit) {
    std::fprintf(stderr, "fuzz: %zu bytes held at once, at most %zu expected\n",
                 held, limit);
    std::abort();
  }
}

void count_free(const volatile void* memory) {
  if (limit != 0 && memory != nullptr) {
    held -= std::min(
        held, __sanitizer_get_allocated_size(const_cast<const void*>(memory)));
  }
}

class AllocationGuard {
 public:
  explicit AllocationGuard(std::size_t file_size) {
    static const int installed =
        __sanitizer_install_malloc_and_free_hooks(count_allocation, count_free);
    if (installed == 0) {
      std::abort();
    }
    held = 0;
    limit = kMostPerByte * file_size + kMostAnyway;
  }
  ~AllocationGuard() { limit = 0; }
  AllocationGuard(const AllocationGuard&) = delete;
  AllocationGuard& operator=(const AllocationGuard&) = delete;
};

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
  const AllocationGuard guard(size);
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

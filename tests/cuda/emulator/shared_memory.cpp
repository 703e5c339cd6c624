#include "tests/cuda/emulator/shared_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/cuda/emulator/machine.h"

namespace troupe::emulator {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlignment = 16;
constexpr std::byte kBehind{0xc5};

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

SharedMemory::SharedMemory() {
  void* memory = mmap(nullptr, kMostBytes + 2 * kPage, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* first = static_cast<std::byte*>(memory) + kPage;
  if (memory == MAP_FAILED ||
      mprotect(first, kMostBytes, PROT_READ | PROT_WRITE) != 0) {
    report_bug("no memory for the shared memory of a block");
  }
  end_ = first + kMostBytes;
}

std::byte* SharedMemory::fresh(std::size_t bytes) {
  bytes_ = bytes;
  std::byte* start = end_ - rounded_up(bytes);
  std::memset(start, 0xff, bytes);
  std::fill(start + bytes, end_, kBehind);
  return start;
}

void SharedMemory::check() const {
  const std::byte* start = end_ - rounded_up(bytes_);
  if (!std::all_of(start + bytes_, static_cast<const std::byte*>(end_),
                   [](std::byte b) { return b == kBehind; })) {
    report_bug("something wrote behind the end of shared memory");
  }
}

}  // namespace troupe::emulator

#pragma once

#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

// For fuzz targets: one source each, one thread.

namespace troupe {

/// Ends the program when more than `most` bytes are allocated and not freed
/// while it lives. Counted by the sanitizer's hooks, so that its own checks of
/// new and delete stay. One at a time.
class AllocationGuard {
 public:
  explicit AllocationGuard(std::size_t most) {
    static const int installed =
        __sanitizer_install_malloc_and_free_hooks(count_allocation, count_free);
    if (installed == 0) {
      std::abort();
    }
    held_ = 0;
    most_ = most;
    is_on_ = true;
  }
  ~AllocationGuard() { is_on_ = false; }
  AllocationGuard(const AllocationGuard&) = delete;
  AllocationGuard& operator=(const AllocationGuard&) = delete;

 private:
  static void count_allocation(const volatile void* /*memory*/,
                               std::size_t size) {
    if (!is_on_) {
      return;
    }
    held_ += size;
    if (held_ > most_) {
      std::fprintf(stderr,
                   "fuzz: %zu bytes held at once, at most %zu expected\n",
                   held_, most_);
      std::abort();
    }
  }
  static void count_free(const volatile void* memory) {
    if (is_on_ && memory != nullptr) {
      held_ -= std::min(held_, __sanitizer_get_allocated_size(
                                   const_cast<const void*>(memory)));
    }
  }

  static inline bool is_on_ = false;
  static inline std::size_t most_ = 0;
  static inline std::size_t held_ = 0;
};

}  // namespace troupe

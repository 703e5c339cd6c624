#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace troupe::emulator {

/// What AddressSanitizer and ThreadSanitizer must know of a stack that the
/// program switches to by itself; nothing without them.
class SanitizedStack {
 public:
  /// A new stack; without a call, the one that the thread runs on.
  void set_up([[maybe_unused]] std::byte* bottom,
              [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    bottom_ = bottom;
    bytes_ = bytes;
#endif
#if defined(__SANITIZE_THREAD__)
    fiber_ = __tsan_create_fiber(0);
#endif
  }

  /// The last thing before the thread leaves this stack for another; `ends`:
  /// for good.
  void leave_for([[maybe_unused]] SanitizedStack& other,
                 [[maybe_unused]] bool ends = false) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(ends ? nullptr : &frames_, other.bottom_,
                                   other.bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
    if (other.fiber_ != nullptr && fiber_ == nullptr) {
      fiber_ = __tsan_get_current_fiber();
    }
    __tsan_switch_to_fiber(other.fiber_, 0);
#endif
  }

  /// The first thing on this stack when it is entered, from `other`.
  void enter_from([[maybe_unused]] SanitizedStack& other,
                  [[maybe_unused]] bool is_new = false) {
#if defined(__SANITIZE_ADDRESS__)
    const void* bottom = nullptr;
    std::size_t bytes = 0;
    __sanitizer_finish_switch_fiber(is_new ? nullptr : frames_, &bottom,
                                    &bytes);
    other.bottom_ = bottom;
    other.bytes_ = bytes;
#endif
  }

 private:
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom_ = nullptr;
  std::size_t bytes_ = 0;
  void* frames_ = nullptr;
#endif
#if defined(__SANITIZE_THREAD__)
  void* fiber_ = nullptr;
#endif
};

}  // namespace troupe::emulator

#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tests/cuda/emulator/sanitized_stack.h"

namespace troupe::emulator {

/// Threads of one block that take turns on the calling thread: each runs until
/// it yields or ends. Thread: one at a time.
class Fibers {
 public:
  Fibers() = default;
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  /// Fibers 0 … count − 1 stand at the start of body(their number).
  void start(int count, std::function<void(int)> body);
  /// Runs one until it yields (true) or ends (false).
  bool resume(int fiber);
  /// Of the fiber that runs: goes back to `resume`.
  void yield();

 private:
  static void enter();
  void add_stack();

  /// A stack and where it stands.
  struct Fiber {
    std::byte* stack = nullptr;
    void* at = nullptr;
    bool has_ended = false;
    SanitizedStack sanitized;
  };
  std::vector<Fiber> fibers_;
  SanitizedStack sanitized_outside_;
  std::function<void(int)> body_;
  void* outside_ = nullptr;
  int current_ = 0;
};

}  // namespace troupe::emulator

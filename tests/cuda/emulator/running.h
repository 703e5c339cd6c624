#pragma once

#include <string>

// What is running, for messages: a fault in a kernel says whose it is.

namespace troupe::emulator {

/// Names the running operation until it ends.
class Running {
 public:
  explicit Running(const std::string& operation);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

/// Where the kernel that runs is.
void now_at(long long block_x, long long block_y, int thread);

/// " in <operation>, block …, thread …", or nothing outside.
[[nodiscard]] std::string while_running();

/// Makes a touch of closed device memory say so before the program dies of
/// SIGSEGV.
void explain_faults();

}  // namespace troupe::emulator

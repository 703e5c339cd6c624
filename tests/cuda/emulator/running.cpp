#include "tests/cuda/emulator/running.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tests/cuda/emulator/machine.h"

namespace troupe::emulator {
namespace {

// One operation runs at a time, under the machine's lock; a signal handler
// reads the place, so `Place` is plain memory.
struct Place {
  char operation[128] = "";
  bool is_kernel = false;
  long long block_x = 0;
  long long block_y = 0;
  int thread = 0;
};
thread_local Place place;

struct sigaction previous;

int describe(char* text, std::size_t size) {
  if (place.operation[0] == '\0') {
    text[0] = '\0';
    return 0;
  }
  if (!place.is_kernel) {
    return std::snprintf(text, size, " in %s", place.operation);
  }
  return std::snprintf(text, size, " in %s, block (%lld, %lld), thread %d",
                       place.operation, place.block_x, place.block_y,
                       place.thread);
}

void on_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
  if (place.operation[0] != '\0' &&
      machine().arena.open_touched(info->si_addr)) {
    return;
  }
  char where[256];
  describe(where, sizeof(where));
  char text[512];
  if (machine().arena.is_inside(info->si_addr)) {
    const int length = std::snprintf(
        text, sizeof(text),
        where[0] != '\0'
            ? "emulated GPU: illegal address: memory that is out of range, "
              "freed, not allocated yet or another device's is touched%s\n"
            : "emulated GPU: the host touches device memory%s\n",
        where);
    (void)!write(STDERR_FILENO, text, static_cast<std::size_t>(length));
  } else if (where[0] != '\0') {
    const int length = std::snprintf(text, sizeof(text),
                                     "emulated GPU: memory fault%s\n", where);
    (void)!write(STDERR_FILENO, text, static_cast<std::size_t>(length));
  }
  // The instruction faults again, as if nobody had looked.
  sigaction(SIGSEGV, &previous, nullptr);
}

}  // namespace

Running::Running(const std::string& operation) {
  std::snprintf(place.operation, sizeof(place.operation), "%s",
                operation.empty() ? "an operation" : operation.c_str());
  place.is_kernel = false;
}

Running::~Running() { place.operation[0] = '\0'; }

void now_at(long long block_x, long long block_y, int thread) {
  place.is_kernel = true;
  place.block_x = block_x;
  place.block_y = block_y;
  place.thread = thread;
}

std::string while_running() {
  char text[256];
  describe(text, sizeof(text));
  return text;
}

void explain_faults() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &previous);
}

}  // namespace troupe::emulator

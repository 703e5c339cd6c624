#include <string>
#include <vector>

#include "actors/cli/run_troupe.h"
#include "actors/cli/signals.h"
#include "kernels/core/system/machine.h"

// Runs before the initialisers of libraries, which take long: from here on no
// stop signal ends the process without a word. (The sanitizers' runtimes are
// not there yet at this point.)
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
[[gnu::used, gnu::section(".preinit_array")]] void (*const first)() =
    troupe::actors::block_stop_signals;
#endif

int main(int argc, char** argv) {
  troupe::actors::open_standard_files();
  troupe::actors::block_stop_signals();
  troupe::return_freed_tensors();
  return troupe::actors::run_troupe(
      std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}

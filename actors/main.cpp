#include <string>
#include <vector>

#include "actors/cli/run_troupe.h"
#include "actors/cli/signals.h"

int main(int argc, char** argv) {
  troupe::actors::open_standard_files();
  troupe::actors::block_stop_signals();
  return troupe::actors::run_troupe(
      std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}

#include "tests/simulator/simulate.h"

#include "tests/simulator/world.h"

namespace troupe::actors::simulator {

Outcome simulate(const Scenario& scenario, const Sabotage& sabotage) {
  return World(scenario, sabotage).run();
}

}  // namespace troupe::actors::simulator

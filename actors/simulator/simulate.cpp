#include "actors/simulator/simulate.h"

#include "actors/simulator/world.h"

namespace troupe::actors::simulator {

Outcome simulate(const Scenario& scenario, const Sabotage& sabotage) {
  return World(scenario, sabotage).run();
}

}  // namespace troupe::actors::simulator

#include "tests/net/communicator_world.h"

namespace troupe::net {

std::vector<CommunicatorKind> communicator_kinds() { return {inproc_kind()}; }

}  // namespace troupe::net

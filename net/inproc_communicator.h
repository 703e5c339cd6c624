#pragma once

#include <memory>
#include <vector>

#include "net/communicator.h"

namespace troupe::net {

/// Communicators of `world_size` ranks that are threads of this process.
/// Element r belongs to rank r. Bytes are copied once, by the receiver. A send
/// returns when its receiver has taken the bytes, so what waits for a buffer
/// shows here first. Memory: the host's. Errors: Errc::invalid_argument below
/// one rank.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>>
make_inproc_communicators(int world_size);

}  // namespace troupe::net

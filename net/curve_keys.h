#pragma once

#include "net/keys.h"

namespace troupe::net {

/// The public key that belongs to a secret CURVE key. Errors: Errc::unsupported
/// if this ZeroMQ was built without CURVE.
[[nodiscard]] PublicKey public_key_of(const SecretKey& secret);

}  // namespace troupe::net

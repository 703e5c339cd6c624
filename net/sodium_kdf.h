#pragma once

#include "net/keys.h"

namespace troupe::net {

/// The secret CURVE key of a role: BLAKE2b, keyed by the company's key
/// (libsodium's crypto_kdf). From it nobody can compute the company's key or
/// that of the other role.
[[nodiscard]] SecretKey derive_secret(const SecretKey& company, Role role);

}  // namespace troupe::net

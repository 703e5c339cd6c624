#pragma once

#include <random>

#include "net/curve_keys.h"
#include "net/link.h"

namespace troupe::net {

/// A new pair of keys that lets nobody in.
[[nodiscard]] inline LinkKeys make_keys() {
  std::random_device random;
  LinkKeys keys;
  for (std::byte& byte : keys.own.secret.bytes()) {
    byte = static_cast<std::byte>(random());
  }
  keys.own.public_key = public_key_of(keys.own.secret);
  return keys;
}

}  // namespace troupe::net

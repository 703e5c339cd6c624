#pragma once

#include <cstring>

#include "net/shared_bytes.h"

namespace troupe::net {

/// Quick enough for a hub's thread, although tests are not optimised.
[[nodiscard]] inline bool same_bytes(const SharedBytes& a,
                                     const SharedBytes& b) {
  return a.size == b.size &&
         (a.size == 0 || std::memcmp(a.data.get(), b.data.get(), a.size) == 0);
}

}  // namespace troupe::net

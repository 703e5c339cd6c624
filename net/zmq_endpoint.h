#pragma once

#include <optional>
#include <string_view>

#include "net/endpoint.h"
#include "net/link.h"
#include "net/zmq_socket.h"

// How sockets get to their endpoints. Only sources net/zmq* include this
// header.

namespace troupe::net {

/// Other machines reach no endpoint without keys. `does`: "listens", "dials".
/// Errors: Errc::invalid_argument.
void check_keys(const Endpoint& endpoint, bool has_keys, std::string_view does);

/// Makes the socket ready to be bound to the endpoint. Returns whether its
/// frames name the sender's key.
bool prepare_listener(ZmqSocket& socket, const Endpoint& endpoint,
                      const std::optional<LinkKeys>& keys);

/// Connects the socket, whose link options are set. `key`: the listener's.
/// Errors: Errc::invalid_argument, also for a key that is not known.
void dial(ZmqSocket& socket, const Endpoint& endpoint,
          const std::optional<LinkKeys>& keys,
          const std::optional<PublicKey>& key);

}  // namespace troupe::net

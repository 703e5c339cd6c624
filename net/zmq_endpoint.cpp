#include "net/zmq_endpoint.h"

#include <string>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::net {
namespace {

void use_ipv6(const Endpoint& endpoint, ZmqSocket& socket) {
  if (endpoint.where.starts_with('[')) {
    socket.set(ZMQ_IPV6, 1);
  }
}

}  // namespace

void check_keys(const Endpoint& endpoint, bool has_keys,
                std::string_view does) {
  if (!has_keys && is_public(endpoint)) {
    throw Error(Errc::invalid_argument, kLinkPlace,
                "the endpoint " + in_quotes(endpoint.text) +
                    " is public: nobody " + std::string(does) +
                    " there without keys",
                "make keys, or use 127.0.0.1 or ipc://");
  }
}

bool prepare_listener(ZmqSocket& socket, const Endpoint& endpoint,
                      const std::optional<LinkKeys>& keys) {
  const bool has_users = keys && endpoint.transport != Transport::inproc;
  if (has_users) {
    socket.set(ZMQ_CURVE_SERVER, 1);
    socket.set(ZMQ_CURVE_SECRETKEY, keys->own.secret.bytes());
    socket.set(ZMQ_ZAP_DOMAIN, std::vector{std::byte{'t'}});
  }
  use_ipv6(endpoint, socket);
  return has_users;
}

void dial(ZmqSocket& socket, const Endpoint& endpoint,
          const std::optional<LinkKeys>& keys,
          const std::optional<PublicKey>& key) {
  if (keys && endpoint.transport != Transport::inproc) {
    require(key.has_value(), Errc::invalid_argument, kLinkPlace,
            "the key of " + in_quotes(endpoint.text) + " is not known");
    socket.set(ZMQ_CURVE_SERVERKEY, *key);
    socket.set(ZMQ_CURVE_PUBLICKEY, keys->own.public_key);
    socket.set(ZMQ_CURVE_SECRETKEY, keys->own.secret.bytes());
  }
  use_ipv6(endpoint, socket);
  socket.connect(endpoint.text);
}

}  // namespace troupe::net

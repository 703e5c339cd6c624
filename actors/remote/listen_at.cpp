#include "actors/remote/listen_at.h"

#include <utility>

#include "kernels/core/error.h"
#include "net/endpoint.h"

namespace troupe::actors {

std::string listen_at(net::Hub& hub, const std::string& endpoint,
                      const std::string& place) {
  try {
    net::check_is_address(net::parse_endpoint(endpoint));
    return hub.listen(endpoint);
  } catch (const Error& error) {
    throw Error(error.code(), place, error.message(),
                error.hint().empty()
                    ? "give another address; tcp://HOST:0 is any free port"
                    : error.hint());
  }
}

net::PeerId dial_at(net::Hub& hub, const std::string& endpoint,
                    net::DialOptions options, const std::string& place) {
  try {
    net::check_host(net::parse_endpoint(endpoint));
    return hub.dial(endpoint, std::move(options));
  } catch (const Error& error) {
    throw Error(error.code(), place, error.message(), error.hint());
  }
}

std::string advertised(const std::string& shown, const std::string& bound) {
  if (shown.empty()) {
    return bound;
  }
  const net::Endpoint endpoint = net::parse_endpoint(shown);
  return endpoint.port == "*"
             ? "tcp://" + endpoint.where + ":" + net::parse_endpoint(bound).port
             : endpoint.text;
}

}  // namespace troupe::actors

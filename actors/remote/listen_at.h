#pragma once

#include <string>

#include "net/link.h"

namespace troupe::actors {

/// Listens at an address that a person gave; returns it with its port. Errors:
/// those of net::Hub::listen, at `place`: where the address was given
/// ("--listen").
[[nodiscard]] std::string listen_at(net::Hub& hub, const std::string& endpoint,
                                    const std::string& place);

/// Dials an address that a person gave. Asks first whether its host is known,
/// which may take seconds. Errors: those of net::check_host and net::Hub::dial,
/// at `place`: where the address was given ("--join").
[[nodiscard]] net::PeerId dial_at(net::Hub& hub, const std::string& endpoint,
                                  net::DialOptions options,
                                  const std::string& place);

/// What others dial to reach a process that listens at `bound`: `shown`, with
/// the port of `bound` if it names none; `bound` if it is empty. Errors: those
/// of net::parse_endpoint.
[[nodiscard]] std::string advertised(const std::string& shown,
                                     const std::string& bound);

}  // namespace troupe::actors

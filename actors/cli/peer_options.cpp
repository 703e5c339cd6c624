#include "actors/cli/peer_options.h"

#include <utility>

#include "actors/cli/link_options.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "net/endpoint.h"
#include "net/keys.h"

namespace troupe::actors {
namespace {

using net::Endpoint;
using net::Transport;

/// The interface on which other workers may dial this process, guessed from the
/// coordinator's address.
std::string default_port(const Endpoint& coordinator) {
  const bool is_v6 = coordinator.where.starts_with('[');
  if (net::is_public(coordinator)) {
    return is_v6 ? "tcp://[::]:0" : "tcp://*:0";
  }
  return is_v6 ? "tcp://[::1]:0" : "tcp://127.0.0.1:0";
}

/// Refuses an --advertise that cannot lead other workers to --bind.
void check_advertised(const config::Config& config, Transport transport) {
  const Endpoint shown = net::parse_endpoint(config.advertise);
  const bool is_any =
      shown.where == "*" || shown.where == "0.0.0.0" || shown.where == "[::]";
  if (shown.transport != transport ||
      (shown.transport == Transport::tcp && is_any)) {
    throw Error(Errc::invalid_argument, config.place_of("advertise"),
                "no other process can dial this address: got " +
                    in_quotes(config.advertise),
                "name the host and port that lead to --bind");
  }
}

}  // namespace

void check_peers(const config::Config& config) {
  if (config.no_peer) {
    require(config.bind.empty() && config.advertise.empty(),
            Errc::invalid_argument, config.place_of("no-peer"),
            "excludes --bind and --advertise: it listens for nobody");
    return;
  }
  const Endpoint coordinator = net::parse_endpoint(config.join);
  Transport transport = coordinator.transport;
  for (const auto& [key, text] :
       {std::pair{"bind", &config.bind}, {"advertise", &config.advertise}}) {
    if (!text->empty()) {
      (void)checked_endpoint(config, *text, config.place_of(key));
    }
  }
  if (!config.bind.empty()) {
    transport = net::parse_endpoint(config.bind).transport;
  }
  if (!config.advertise.empty()) {
    check_advertised(config, transport);
  }
}

PeerPlace::PeerPlace(const config::Config& config) {
  check_peers(config);
  if (config.no_peer) {
    return;
  }
  spec_.emplace();
  spec_->bind = config.bind;
  spec_->place = config.place_of("bind");
  spec_->advertise = config.advertise;
  if (!config.secret_file.empty()) {
    spec_->key =
        net::read_keys(config.secret_file, net::Role::worker).worker.public_key;
  }
  if (config.bind.empty()) {
    const Endpoint coordinator = net::parse_endpoint(config.join);
    spec_->may_fail = true;
    if (coordinator.transport == Transport::ipc) {
      folder_ = SocketFolder::make();
      spec_->bind = folder_.path().empty() ? "" : folder_.endpoint();
    } else if (spec_->key || !net::is_public(coordinator)) {
      spec_->bind = default_port(coordinator);
    }
  }
}

}  // namespace troupe::actors

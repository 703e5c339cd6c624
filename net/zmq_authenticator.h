#pragma once

#include <map>
#include <set>
#include <string>

#include "net/link.h"
#include "net/zmq_socket.h"

namespace troupe::net {

/// Decides whose public key may dial: ZeroMQ asks it over ZAP (RFC 27) before a
/// connection's first frame is read. Thread: one.
class ZmqAuthenticator {
 public:
  /// Errors: Errc::unsupported if the context has one.
  explicit ZmqAuthenticator(const ZmqContext& context);

  void allow(const AllowedKey& key);
  /// Whether the user, as `ZmqFrame::user` names it, may have this role.
  [[nodiscard]] bool may_have(const std::string& user,
                              const std::string& role) const;

  [[nodiscard]] const ZmqSocket& socket() const { return socket_; }
  /// Answers the pending requests.
  void answer();

 private:
  ZmqSocket socket_;
  std::map<std::string, std::set<std::string>> roles_;  ///< by user
};

}  // namespace troupe::net

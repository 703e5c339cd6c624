#include "net/zmq_authenticator.h"

#include <span>

#include "kernels/core/error.h"

namespace troupe::net {
namespace {

/// A key as user: 64 hexadecimal digits.
[[nodiscard]] std::string user_of(std::span<const std::byte> key) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string user;
  for (const std::byte byte : key) {
    const auto number = std::to_integer<unsigned>(byte);
    user += digits[number >> 4U];
    user += digits[number & 15U];
  }
  return user;
}

}  // namespace

ZmqAuthenticator::ZmqAuthenticator(const ZmqContext& context)
    : socket_(context, ZMQ_REP) {
  try {
    socket_.bind("inproc://zeromq.zap.01");
  } catch (const Error&) {
    throw Error(Errc::unsupported, "link",
                "a switchboard has one hub with keys");
  }
  socket_.set(ZMQ_LINGER, 0);
}

void ZmqAuthenticator::allow(const AllowedKey& key) {
  roles_[user_of(key.public_key)].insert(key.role);
}

bool ZmqAuthenticator::may_have(const std::string& user,
                                const std::string& role) const {
  const auto found = roles_.find(user);
  return found != roles_.end() && found->second.count(role) > 0;
}

void ZmqAuthenticator::answer() {
  // Version, request, domain, address, identity, mechanism, key.
  constexpr std::size_t kMechanism = 5;
  constexpr std::size_t kKey = 6;
  while (const auto parts = socket_.receive_parts(kKey + 1)) {
    std::string user;
    if (parts->size() == kKey + 1 && (*parts)[kMechanism] == "CURVE") {
      user = user_of(std::as_bytes(std::span((*parts)[kKey])));
    }
    const bool is_known = roles_.count(user) > 0;
    socket_.send_parts(
        {"1.0", parts->size() > 1 ? (*parts)[1] : "", is_known ? "200" : "400",
         is_known ? "OK" : "unknown key", is_known ? user : "", ""});
  }
}

}  // namespace troupe::net

#include <string.h>
#include <zmq.h>

#include "kernels/core/error.h"
#include "net/curve_keys.h"

namespace troupe::net {
namespace {

/// A key as ZeroMQ writes it in Z85: five characters for four bytes, and a
/// zero.
constexpr std::size_t kTextBytes = kKeyBytes / 4 * 5 + 1;
using KeyText = std::array<char, kTextBytes>;

}  // namespace

PublicKey public_key_of(const SecretKey& secret) {
  KeyText secret_text{};
  KeyText public_text{};
  ::zmq_z85_encode(secret_text.data(),
                   reinterpret_cast<const std::uint8_t*>(secret.bytes().data()),
                   kKeyBytes);
  const int status = ::zmq_curve_public(public_text.data(), secret_text.data());
  ::explicit_bzero(secret_text.data(), secret_text.size());
  require(status == 0, Errc::unsupported, "ZeroMQ",
          "this libzmq cannot make CURVE keys",
          "install Debian's libzmq5, which is built with CURVE");
  PublicKey key{};
  ::zmq_z85_decode(reinterpret_cast<std::uint8_t*>(key.data()),
                   public_text.data());
  return key;
}

}  // namespace troupe::net

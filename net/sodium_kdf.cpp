#include "net/sodium_kdf.h"

#include <sodium.h>

#include "kernels/core/error.h"

namespace troupe::net {
namespace {

/// Names the purpose of the derived keys, so that a second use of the company's
/// key derives different keys. Every key depends on the name: it must not
/// change.
constexpr std::array<char, crypto_kdf_CONTEXTBYTES> kContext = {
    'T', 'r', 'o', 'u', 'p', 'e', 'N', '1'};
static_assert(crypto_kdf_KEYBYTES == kKeyBytes);

}  // namespace

SecretKey derive_secret(const SecretKey& company, Role role) {
  require(::sodium_init() >= 0, Errc::internal, "libsodium",
          "it could not be initialised");
  SecretKey secret;
  const int status = ::crypto_kdf_derive_from_key(
      reinterpret_cast<unsigned char*>(secret.bytes().data()), kKeyBytes,
      static_cast<std::uint64_t>(role), kContext.data(),
      reinterpret_cast<const unsigned char*>(company.bytes().data()));
  require(status == 0, Errc::internal, "libsodium", "no key was derived");
  return secret;
}

}  // namespace troupe::net

#include "net/sodium_kdf.h"

#include <sodium.h>

#include "kernels/core/error.h"

namespace troupe::net {
namespace {

/// Says what the derived keys are for, so that another use of the company's key
/// cannot give the same ones. It stands in every key: it must not change.
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

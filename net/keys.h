#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

/// Keys of a company (the processes of a job): a key permits the role of the
/// coordinator or of a worker. Keys are CURVE keys (RFC 7748: X25519), as links
/// between processes use them. Thread: any.
namespace troupe::net {

/// The role of a process in its company. The numbers stand in the derivation of
/// keys and must not change.
enum class Role : std::uint8_t { coordinator = 1, worker = 2 };

inline constexpr std::size_t kKeyBytes = 32;
using PublicKey = std::array<std::byte, kKeyBytes>;

/// 32 secret bytes. The destructor overwrites the bytes.
class SecretKey {
 public:
  SecretKey() = default;
  explicit SecretKey(std::span<const std::byte, kKeyBytes> bytes);
  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;
  ~SecretKey();

  [[nodiscard]] std::span<std::byte, kKeyBytes> bytes() { return bytes_; }
  [[nodiscard]] std::span<const std::byte, kKeyBytes> bytes() const {
    return bytes_;
  }

 private:
  std::array<std::byte, kKeyBytes> bytes_{};
};

struct KeyPair {
  SecretKey secret;
  PublicKey public_key{};  ///< that belongs to `secret`
};

/// The keys of a process.
struct Keys {
  std::optional<KeyPair> coordinator;  ///< nothing from a node file
  KeyPair worker;                      ///< all workers of a company share it
  PublicKey coordinator_key{};         ///< public, to know the coordinator by
};

/// All keys of the company whose key is `company`.
[[nodiscard]] Keys derive_keys(const SecretKey& company);

/// Makes the key of a new company and writes it to a file of mode 0600.
/// Errors: those of AtomicFile; Errc::invalid_argument if the file exists: a
/// key is never replaced.
void write_company_key(const std::filesystem::path& path);

/// Writes the node file of a worker: the secret key of workers and the public
/// key of the coordinator. Nobody can derive the coordinator's secret from it.
/// Errors: those of write_company_key.
void write_worker_key(const std::filesystem::path& path, const Keys& keys);

/// The keys in a file, for a process that is to have this role. A company's
/// file is good for both roles, a node file for a worker only.
/// Errors: Errc::not_found; Errc::io for what cannot be read;
/// Errc::invalid_argument if others may read or write the file (any mode beyond
/// 0600), or for a node file where a coordinator's is needed;
/// Errc::corrupt_file for a file that is no key file, is cut short or was
/// changed; Errc::unsupported for another version of the format. No message
/// shows what stands in the file.
[[nodiscard]] Keys read_keys(const std::filesystem::path& path, Role role);

}  // namespace troupe::net

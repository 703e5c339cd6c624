#include "net/keys.h"

#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/system/exit_codes.h"
#include "kernels/core/text.h"
#include "net/curve_keys.h"
#include "net/sodium_kdf.h"

namespace troupe::net {
namespace {

namespace fs = std::filesystem;

// A key file is one line: "troupe-key", the version, the kind, the keys in
// hexadecimal, and XXH3-64 of all characters before the last space. The check
// finds what was damaged; it protects against nobody.
constexpr std::string_view kMagic = "troupe-key ";
constexpr std::string_view kVersion = "1";
constexpr std::string_view kCompanyKind = "company";
constexpr std::string_view kWorkerKind = "worker";
constexpr std::size_t kLongestFile = 256;
constexpr std::string_view kCopyAgain =
    "copy it again from where it was made; troupe keys makes new ones";

/// Text with secrets in it: nothing of it stays in memory.
class SecretText {
 public:
  SecretText() = default;
  ~SecretText() { ::explicit_bzero(chars_.data(), chars_.size()); }
  SecretText(const SecretText&) = delete;
  SecretText& operator=(const SecretText&) = delete;

  SecretText& operator+=(std::string_view text) {
    require(text.size() <= chars_.size() - size_, Errc::internal, "key file",
            "longer than any key file");
    std::ranges::copy(text, chars_.begin() + static_cast<long>(size_));
    size_ += text.size();
    return *this;
  }
  void append_hex(std::span<const std::byte, kKeyBytes> bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    for (const std::byte byte : bytes) {
      const auto value = std::to_integer<unsigned>(byte);
      *this += kDigits.substr(value >> 4U, 1);
      *this += kDigits.substr(value & 15U, 1);
    }
  }
  /// Reads the rest of the file, up to one character more than is allowed.
  /// Returns 0, or why not.
  [[nodiscard]] int read(int descriptor) {
    while (size_ < chars_.size()) {
      const ::ssize_t count =
          ::read(descriptor, chars_.data() + size_, chars_.size() - size_);
      if (count < 0 && errno != EINTR) {
        return errno;
      }
      if (count == 0) {
        break;
      }
      size_ += count > 0 ? static_cast<std::size_t>(count) : 0;
    }
    return 0;
  }
  [[nodiscard]] std::string_view view() const { return {chars_.data(), size_}; }

 private:
  std::array<char, kLongestFile + 1> chars_{};
  std::size_t size_ = 0;
};

std::string check_of(std::string_view text) {
  return to_hex(xxh3_64(std::as_bytes(std::span(text))));
}

/// Ends the line and writes the file.
void write_line(const fs::path& path, SecretText& line) {
  const std::string check = check_of(line.view());
  line += " ";
  line += check;
  line += "\n";
  FileRule rule(IfThere::refuse);
  rule.is_private = true;
  AtomicFile file(path, rule);
  file.write(std::as_bytes(std::span(line.view())));
  file.sync();
  require(file.try_publish(), Errc::invalid_argument, path.string(),
          "the file is there already, and a key is never replaced",
          "choose another name, or remove the file if nobody needs it");
  sync_folder(file.folder());
}

void append_head(SecretText& line, std::string_view kind) {
  line += kMagic;
  line += kVersion;
  line += " ";
  line += kind;
  line += " ";
}

[[noreturn]] void fail_corrupt(const fs::path& path, std::string_view what) {
  throw Error(Errc::corrupt_file, path.string(), what, kCopyAgain);
}

/// Takes `count` characters from the front of `text`.
std::string_view take(std::string_view& text, std::size_t count) {
  const std::string_view taken = text.substr(0, count);
  text.remove_prefix(taken.size());
  return taken;
}

/// Takes a word and the space behind it.
std::string_view take_word(std::string_view& text) {
  const std::string_view word = take(text, text.find(' '));
  (void)take(text, 1);
  return word;
}

/// Takes a key and the space behind it. False if the text is not a key.
bool take_key(std::string_view& text, std::span<std::byte, kKeyBytes> key) {
  const std::string_view word = take_word(text);
  if (word.size() != 2 * kKeyBytes) {
    return false;
  }
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
  };
  for (std::size_t i = 0; i < kKeyBytes; ++i) {
    const int high = digit(word[2 * i]);
    const int low = digit(word[2 * i + 1]);
    if (high < 0 || low < 0) {
      return false;
    }
    key[i] = static_cast<std::byte>(high << 4 | low);
  }
  return true;
}

struct Descriptor {
  ~Descriptor() { ::close(value); }
  int value;
};

Descriptor open_key_file(const fs::path& path) {
  try {
    return {open_regular_file(path)};
  } catch (const Error& error) {
    if (error.code() != Errc::not_found) {
      throw;
    }
    throw Error(Errc::not_found, path.string(), "no such key file",
                "check the path; troupe keys makes key files");
  }
}

/// Reads a file that begins as key files do, and returns its mode.
::mode_t read_key_file(const fs::path& path, SecretText& text) {
  const Descriptor file = open_key_file(path);
  struct stat status {};
  int reason = ::fstat(file.value, &status) == 0 ? 0 : errno;
  reason = reason == 0 ? text.read(file.value) : reason;
  if (reason != 0) {
    throw Error(
        file_error(reason), path.string(),
        "cannot read the key: " + std::generic_category().message(reason));
  }
  if (!text.view().starts_with(kMagic)) {
    fail_corrupt(path, "this is no key file: it does not begin with " +
                           in_quotes(trimmed(kMagic)));
  }
  return status.st_mode & 07777U;
}

void check_mode(const fs::path& path, ::mode_t mode) {
  constexpr ::mode_t kAllowed = 0600;
  if ((mode & ~kAllowed) == 0) {
    return;
  }
  std::string octal = "0000";
  for (unsigned i = 0; i < octal.size(); ++i) {
    octal[i] = static_cast<char>('0' + (mode >> (9U - 3U * i) & 7U));
  }
  throw Error(
      Errc::invalid_argument, path.string(),
      "others may use this key file: got mode " + octal + ", expected 0600",
      "chmod 600 " + path.string() +
          "; make a new key if somebody may have read it");
}

void check_version(const fs::path& path, std::string_view version) {
  if (version == kVersion) {
    return;
  }
  constexpr std::size_t kLongest = 4;  // no key passes for a version
  const bool is_number =
      !version.empty() && version.size() <= kLongest &&
      version.find_first_not_of("0123456789") == std::string_view::npos;
  if (!is_number) {
    fail_corrupt(path, "the key file was changed: its version is no number");
  }
  throw Error(Errc::unsupported, path.string(),
              "the key file has another version: got " + std::string(version) +
                  ", expected " + std::string(kVersion),
              "use the version of troupe that made it, or make new keys");
}

}  // namespace

SecretKey::SecretKey(std::span<const std::byte, kKeyBytes> bytes) {
  std::ranges::copy(bytes, bytes_.begin());
}

SecretKey::~SecretKey() { ::explicit_bzero(bytes_.data(), bytes_.size()); }

Keys derive_keys(const SecretKey& company) {
  const auto pair_of = [&company](Role role) {
    KeyPair pair{.secret = derive_secret(company, role)};
    pair.public_key = public_key_of(pair.secret);
    return pair;
  };
  Keys keys{.coordinator = pair_of(Role::coordinator),
            .worker = pair_of(Role::worker)};
  keys.coordinator_key = keys.coordinator->public_key;
  return keys;
}

void write_company_key(const fs::path& path) {
  SecretKey company;
  // Up to 256 bytes come whole, and no signal interrupts them.
  require(::getrandom(company.bytes().data(), kKeyBytes, 0) ==
              static_cast<::ssize_t>(kKeyBytes),
          Errc::io, "getrandom", "the system gave no random bytes");
  SecretText line;
  append_head(line, kCompanyKind);
  line.append_hex(company.bytes());
  write_line(path, line);
}

void write_worker_key(const fs::path& path, const Keys& keys) {
  SecretText line;
  append_head(line, kWorkerKind);
  line.append_hex(keys.worker.secret.bytes());
  line += " ";
  line.append_hex(keys.coordinator_key);
  write_line(path, line);
}

Keys read_keys(const fs::path& path, Role role) {
  SecretText text;
  check_mode(path, read_key_file(path, text));
  std::string_view rest = text.view();
  (void)take(rest, kMagic.size());
  check_version(path, take_word(rest));
  const std::string_view kind = take_word(rest);
  const bool is_company = kind == kCompanyKind;
  if (!is_company && kind != kWorkerKind) {
    fail_corrupt(path,
                 "the key file was changed or cut short: its kind is "
                 "neither company nor worker");
  }
  SecretKey secret;
  PublicKey coordinator{};
  const bool has_keys = take_key(rest, secret.bytes()) &&
                        (is_company || take_key(rest, coordinator));
  const std::string_view checked =
      text.view().substr(0, text.view().size() - rest.size());
  if (!has_keys || rest.empty() || rest.back() != '\n') {
    fail_corrupt(path, "the key file was changed or cut short");
  }
  rest.remove_suffix(rest.ends_with("\r\n") ? 2 : 1);  // as editors end lines
  if (rest != check_of(checked.substr(0, checked.size() - 1))) {
    fail_corrupt(path, "the key file was changed: its check does not fit");
  }
  if (is_company) {
    return derive_keys(secret);
  }
  require(role == Role::worker, Errc::invalid_argument, path.string(),
          "this is a worker's node file, expected the company's key",
          "give the file that troupe keys new wrote");
  Keys keys{.worker = {.secret = secret, .public_key = public_key_of(secret)},
            .coordinator_key = coordinator};
  return keys;
}

}  // namespace troupe::net

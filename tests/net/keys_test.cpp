#include "net/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/system/atomic_file.h"
#include "tests/core/temporary_folder.h"

namespace troupe::net {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<unsigned>(byte) >> 4U];
    text += kDigits[std::to_integer<unsigned>(byte) & 15U];
  }
  return text;
}

/// 00 01 02 … 1f.
SecretKey counted_key() {
  SecretKey key;
  for (std::size_t i = 0; i < kKeyBytes; ++i) {
    key.bytes()[i] = static_cast<std::byte>(i);
  }
  return key;
}

void put(const fs::path& path, std::string_view text) {
  fs::remove(path);  // some disks wait for a file that is truncated
  std::ofstream(path, std::ios::binary) << text;
  fs::permissions(path, fs::perms{0600});
}

class KeysTest : public testing::Test {
 protected:
  [[nodiscard]] fs::path in(const std::string& name) const {
    return folder_.path() / name;
  }
  [[nodiscard]] std::string text_of(const std::string& name) const {
    return read_file(in(name), 1000);
  }
  /// What reading this text as a key file ends with.
  [[nodiscard]] std::optional<Error> error_of(std::string_view text,
                                              Role role = Role::worker) const {
    put(in("x.key"), text);
    return error_of_file("x.key", role);
  }
  [[nodiscard]] std::optional<Error> error_of_file(
      const std::string& name, Role role = Role::worker) const {
    try {
      (void)read_keys(in(name), role);
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }
  /// Files of both kinds, of one company.
  void write_both() const {
    write_company_key(in("company.key"));
    write_worker_key(in("node.key"),
                     read_keys(in("company.key"), Role::coordinator));
  }

  TemporaryFolder folder_;
};

// By scripts/golden_keys.py.
TEST(DeriveKeys, GivesTheKeysThatItAlwaysGave) {
  const Keys keys = derive_keys(counted_key());
  EXPECT_EQ(hex(keys.coordinator->secret.bytes()),
            "078100ad359af9f2029c8f596861cc09"
            "d382a33e86f64d1f5f31589c9e67517a");
  EXPECT_EQ(hex(keys.coordinator->public_key),
            "600f2f21682f1a0a576329b64d336a06"
            "cfce1c793acd1aacb0fa31faa7386e2b");
  EXPECT_EQ(hex(keys.worker.secret.bytes()),
            "c539cfa42e42e2b4a214bcc60d7bfecf"
            "cc2b33e7270bac40fd7ef4acb2112741");
  EXPECT_EQ(hex(keys.worker.public_key),
            "4c91d5615f00ab321f7f1e0e736e2be2"
            "8917b59a2cec068e95214202217ba41a");
  EXPECT_EQ(keys.coordinator_key, keys.coordinator->public_key);
}

TEST(SecretKey, LeavesNothingInMemory) {
  alignas(SecretKey) std::array<std::byte, sizeof(SecretKey)> memory{};
  auto* key = new (memory.data()) SecretKey(counted_key());
  EXPECT_EQ(memory[5], std::byte{5});
  key->~SecretKey();
  EXPECT_EQ(std::ranges::count(memory, std::byte{0}),
            static_cast<long>(memory.size()));
}

TEST_F(KeysTest, ACompanysFileIsGoodForBothRoles) {
  write_both();
  const Keys director = read_keys(in("company.key"), Role::coordinator);
  const Keys worker = read_keys(in("company.key"), Role::worker);
  ASSERT_TRUE(director.coordinator && worker.coordinator);
  EXPECT_EQ(director.coordinator->public_key, worker.coordinator->public_key);
  EXPECT_NE(director.coordinator->public_key, director.worker.public_key);
  const Keys node = read_keys(in("node.key"), Role::worker);
  EXPECT_FALSE(node.coordinator);
  EXPECT_EQ(node.worker.public_key, director.worker.public_key);
  EXPECT_EQ(hex(node.worker.secret.bytes()),
            hex(director.worker.secret.bytes()));
  EXPECT_EQ(node.coordinator_key, director.coordinator_key);
}

TEST_F(KeysTest, EachCompanyHasItsOwnKey) {
  write_both();
  write_company_key(in("other.key"));
  const Keys one = read_keys(in("company.key"), Role::worker);
  const Keys other = read_keys(in("other.key"), Role::worker);
  EXPECT_NE(one.worker.public_key, other.worker.public_key);
  EXPECT_NE(one.coordinator_key, other.coordinator_key);
}

TEST_F(KeysTest, ANodeFileHoldsNothingThatMakesACoordinator) {
  write_both();
  const std::string company = text_of("company.key").substr(21, 64);
  ASSERT_EQ(company.find_first_not_of("0123456789abcdef"), company.npos);
  const Keys keys = read_keys(in("company.key"), Role::coordinator);
  const std::string node = text_of("node.key");
  EXPECT_THAT(node, Not(HasSubstr(company)));
  EXPECT_THAT(node, Not(HasSubstr(hex(keys.coordinator->secret.bytes()))));
  EXPECT_THAT(node, HasSubstr(hex(keys.worker.secret.bytes())));
  const auto error = error_of_file("node.key", Role::coordinator);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Errc::invalid_argument);
  EXPECT_THAT(error->what(), HasSubstr("a worker's node file, expected the "
                                       "company's key"));
}

TEST_F(KeysTest, FilesAreTheirOwnersAndNeverReplaced) {
  const auto old_mask = ::umask(0);
  write_both();
  (void)::umask(old_mask);
  const Keys keys = read_keys(in("company.key"), Role::coordinator);
  for (const char* name : {"company.key", "node.key"}) {
    EXPECT_EQ(fs::status(in(name)).permissions(), fs::perms{0600}) << name;
    const std::string before = text_of(name);
    EXPECT_THROW(write_company_key(in(name)), Error);
    EXPECT_THROW(write_worker_key(in(name), keys), Error);
    EXPECT_EQ(text_of(name), before);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 2);
}

TEST_F(KeysTest, AFileThatOthersMayUseIsRefused) {
  write_both();
  for (const char* name : {"company.key", "node.key"}) {
    for (const ::mode_t mode : {0640U, 0604U, 0620U, 0602U, 0700U, 04600U}) {
      ASSERT_EQ(::chmod(in(name).c_str(), mode), 0);
      const auto error = error_of_file(name);
      ASSERT_TRUE(error) << mode;
      EXPECT_EQ(error->code(), Errc::invalid_argument);
      EXPECT_THAT(error->hint(), HasSubstr("chmod 600 " + in(name).string()));
    }
    ASSERT_EQ(::chmod(in(name).c_str(), 0640), 0);
    EXPECT_THAT(error_of_file(name)->message(),
                HasSubstr("got mode 0640, expected 0600"));
    for (const ::mode_t mode : {0600U, 0400U}) {
      ASSERT_EQ(::chmod(in(name).c_str(), mode), 0);
      EXPECT_FALSE(error_of_file(name)) << mode;
    }
  }
}

TEST_F(KeysTest, AFileMayEndItsLineAsWindowsDoes) {
  write_both();
  for (const char* name : {"company.key", "node.key"}) {
    std::string text = text_of(name);
    text.insert(text.size() - 1, "\r");
    EXPECT_FALSE(error_of(text)) << name;
    text.insert(text.size() - 1, "\r");
    EXPECT_TRUE(error_of(text)) << name;
  }
}

TEST_F(KeysTest, WhatIsNoKeyFileIsNamed) {
  EXPECT_EQ(error_of_file("nowhere")->code(), Errc::not_found);
  EXPECT_EQ(error_of_file("")->code(), Errc::io) << "a folder";
  for (const char* text : {"", "\n", "troupe", "\x89PNG\r\n", "troupe-keys 1",
                           "TROUPE-KEY 1 company "}) {
    const auto error = error_of(text);
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->code(), Errc::corrupt_file) << text;
    EXPECT_THAT(error->message(), HasSubstr("this is no key file")) << text;
  }
}

TEST_F(KeysTest, AnotherVersionIsNamed) {
  write_both();
  for (const char* version : {"0", "2", "12"}) {
    std::string text = text_of("company.key");
    const auto error = error_of(text.replace(11, 1, version));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Errc::unsupported);
    EXPECT_THAT(error->message(),
                HasSubstr(std::string("got ") + version + ", expected 1"));
  }
}

/// Whether `text` shows eight characters in a row of the file's keys.
bool shows_a_key(std::string_view text, std::string_view file) {
  constexpr std::size_t kPiece = 8;
  for (std::size_t at = 20; at + kPiece < file.size(); ++at) {
    if (text.find(file.substr(at, kPiece)) != text.npos) {
      return true;
    }
  }
  return false;
}

TEST_F(KeysTest, DamageAnywhereIsFoundAndNeverShown) {
  write_both();
  for (const char* name : {"company.key", "node.key"}) {
    const std::string whole = text_of(name);
    ASSERT_FALSE(error_of(whole));
    std::vector<std::string> broken = {whole + "\n", whole + whole,
                                       whole + std::string(300, '0')};
    for (std::size_t at = 0; at < whole.size(); ++at) {
      broken.push_back(whole.substr(0, at));
      for (const char c : {'0', 'f', ' ', '\n', '\0', '\xff'}) {
        broken.push_back(whole);
        broken.back()[at] = c;
      }
      std::string without = whole;
      broken.push_back(without.erase(at, 1));
    }
    // A space where the version ends makes the rest look like one.
    broken.push_back("troupe-key " + whole.substr(20));
    for (const std::string& text : broken) {
      if (text == whole) {
        continue;
      }
      const auto error = error_of(text);
      ASSERT_TRUE(error) << text;
      EXPECT_TRUE(error->code() == Errc::corrupt_file ||
                  error->code() == Errc::unsupported)
          << error->what() << "\n"
          << text;
      EXPECT_FALSE(
          shows_a_key(std::string(error->what()) + error->hint(), whole))
          << error->what();
    }
  }
}

TEST_F(KeysTest, ACheckThatFitsDoesNotExcuseTheRest) {
  // Right in form and check, but of a kind that there is not.
  const std::string head =
      "troupe-key 1 friend " + std::string(2 * kKeyBytes, 'a');
  const std::string check = to_hex(xxh3_64(std::as_bytes(std::span(head))));
  EXPECT_EQ(error_of(head + " " + check + "\n")->code(), Errc::corrupt_file);
}

}  // namespace
}  // namespace troupe::net

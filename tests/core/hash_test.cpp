#include "kernels/core/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace troupe {
namespace {

// The byte generator of xxHash's own sanity check (cli/xsum_sanity_check.c).
std::vector<std::byte> sanity_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  std::uint64_t state = 2654435761U;
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(state >> 56U);
    state *= 11400714785074694797U;
  }
  return bytes;
}

struct Known {
  std::size_t size;
  std::uint64_t hash;
};
// Its XXH3-64 values for seed 0.
constexpr std::array kKnown = {
    Known{0, 0x2D06800538D394C2U},    Known{1, 0xC44BDFF4074EECDBU},
    Known{6, 0x27B56A84CD2D7325U},    Known{12, 0xA713DAF0DFBB77E7U},
    Known{24, 0xA3FE70BF9D3510EBU},   Known{48, 0x397DA259ECBA1F11U},
    Known{80, 0xBCDEFBBB2C47C90AU},   Known{195, 0xCD94217EE362EC3AU},
    Known{403, 0xCDEB804D65C6DEA4U},  Known{512, 0x617E49599013CB6BU},
    Known{2048, 0xDD59E2C3A5F038E0U}, Known{2240, 0x6E73A90539CF2948U},
    Known{2367, 0xCB37AEB9E5D361EDU}};

TEST(Xxh3, MatchesThePublishedSanityValues) {
  for (const Known& known : kKnown) {
    EXPECT_EQ(xxh3_64(sanity_bytes(known.size)), known.hash) << known.size;
  }
}

TEST(Xxh3, StreamEqualsOneCallForEveryCut) {
  const auto bytes = sanity_bytes(2367);
  for (const std::size_t piece : {1UL, 7UL, 64UL, 256UL, 1000UL, 2367UL}) {
    Xxh3Stream stream;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      stream.update(
          std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    }
    stream.update({});
    EXPECT_EQ(stream.digest(), xxh3_64(bytes)) << piece;
  }
}

TEST(Xxh3, DigestMayBeAskedInBetween) {
  const auto bytes = sanity_bytes(512);
  Xxh3Stream stream;
  EXPECT_EQ(stream.digest(), kKnown[0].hash);
  stream.update(std::span(bytes).first(195));
  EXPECT_EQ(stream.digest(), xxh3_64(std::span(bytes).first(195)));
  stream.update(std::span(bytes).subspan(195));
  EXPECT_EQ(stream.digest(), xxh3_64(bytes));
}

TEST(ToHex, GivesSixteenLowerCaseDigits) {
  EXPECT_EQ(to_hex(0), "0000000000000000");
  EXPECT_EQ(to_hex(0x2D06800538D394C2U), "2d06800538d394c2");
  EXPECT_EQ(to_hex(~std::uint64_t{0}), "ffffffffffffffff");
}

}  // namespace
}  // namespace troupe

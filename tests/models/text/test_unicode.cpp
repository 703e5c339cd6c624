// What tokenizers rely on beyond the golden texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "models/text/base64.h"
#include "models/text/charsmap.h"
#include "models/text/piece_table.h"
#include "models/text/unicode.h"
#include "tests/models/helpers.h"

namespace troupe::models {
namespace {

TEST(Unicode, ComposesInCanonicalOrder) {
  EXPECT_EQ(composed("xa\u0303y"), "xãy");
  EXPECT_EQ(composed("q\u0301\u0316\u0327"), "q\u0327\u0316\u0301");
  EXPECT_EQ(composed("\u1100\u1161\u11a8"), "각");
  EXPECT_EQ(composed("\u212b"), "Å");
  EXPECT_EQ(composed(""), "");
  // A mark of Unicode 10 stands in the way of others.
  EXPECT_EQ(composed("a\u1df9\u0301"), "a\u1df9\u0301");
  EXPECT_EQ(composed("a\u0316\u0301"), "á\u0316");
}

TEST(Unicode, LowersOneCharacterAtATime) {
  std::string text;
  for (const char32_t c : {U'A', U'Σ', U'\u0130', U'ß', U'\U00010400', U'1'}) {
    append_lowered(c, text);
  }
  EXPECT_EQ(text,
            "aσi\u0307ß\U00010428"
            "1");
}

TEST(Unicode, KnowsKindsOfCharacters) {
  for (const char32_t c : {U'\t', U'\u0085', U'\u00a0', U'\u3000', U'\u2028'}) {
    EXPECT_EQ(kind_of(c), CharacterKind::space);
  }
  EXPECT_EQ(kind_of(U'\u200b'), CharacterKind::other);
  EXPECT_EQ(kind_of(U'\u0301'), CharacterKind::other);
  EXPECT_EQ(kind_of(U'½'), CharacterKind::number);
  EXPECT_EQ(kind_of(U'Ⅷ'), CharacterKind::number);
  EXPECT_EQ(kind_of(U'語'), CharacterKind::letter);
}

TEST(Unicode, FindsClusters) {
  EXPECT_EQ(cluster_size("a"), 1U);
  EXPECT_EQ(cluster_size("e\u0301\u0316x"), 5U);
  EXPECT_EQ(cluster_size("\r\n\r"), 2U);
  EXPECT_EQ(cluster_size("🇩🇪🇫🇷"), 8U);
  EXPECT_EQ(cluster_size("👩\u200d🚀!"), 11U);
}

TEST(PieceTable, FindsEveryPrefix) {
  std::mt19937 random(1);
  PieceTable table;
  std::vector<std::string> pieces;
  for (int i = 0; i < 400; ++i) {
    std::string piece;
    for (unsigned n = random() % 6; n > 0; --n) {
      piece += static_cast<char>("ab\xff"[random() % 3]);
    }
    table.add(piece, "file");
    pieces.push_back(piece);
  }
  table.sort();
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (int n = 0; n < 7; ++n) {
      text += static_cast<char>("ab\xff"[random() % 3]);
    }
    std::vector<std::pair<std::size_t, std::size_t>> found;
    table.each_prefix(text, [&](std::uint32_t number, std::size_t size) {
      found.emplace_back(size, number);
    });
    std::vector<std::pair<std::size_t, std::size_t>> expected;
    for (std::size_t size = 1; size <= text.size(); ++size) {
      for (std::size_t number = pieces.size(); number-- > 0;) {
        if (pieces[number] == text.substr(0, size)) {
          expected.emplace_back(size, number);
          EXPECT_EQ(table.find(pieces[number]), number);
          break;
        }
      }
    }
    EXPECT_EQ(found, expected);
  }
  EXPECT_EQ(table.find("abc"), std::nullopt);
}

TEST(Base64, DecodesWhatRfc4648Lists) {
  EXPECT_EQ(from_base64(""), "");
  EXPECT_EQ(from_base64("Zg=="), "f");
  EXPECT_EQ(from_base64("Zm8="), "fo");
  EXPECT_EQ(from_base64("Zm9vYmFy"), "foobar");
  EXPECT_EQ(from_base64("+/+/"), "\xfb\xff\xbf");
  EXPECT_EQ(from_base64("Zm9v YmFy"), std::nullopt);
}

std::string word(std::uint32_t value) {
  std::string bytes;
  for (unsigned shift = 0; shift < 32; shift += 8) {
    bytes += static_cast<char>(value >> shift & 0xffU);
  }
  return bytes;
}

/// A trie of 512 units that maps "A" to `replacements`.
std::string map_of_a(std::uint32_t root, std::uint32_t leaf_value,
                     std::string_view replacements) {
  std::vector<std::uint32_t> units(512);
  units[0] = root;
  // From the root, "A" leads to 0x100 ^ 0x41; its leaf lies at 0x80 beyond.
  units[0x141] = 0x41U | 0x100U | 0xc1U << 10U;  // base 0x141 ^ 0xc1 = 0x180
  units[0x180] = 0x80000000U | leaf_value;
  std::string bytes = word(512 * 4);
  for (const std::uint32_t unit : units) {
    bytes += word(unit);
  }
  return bytes.append(replacements);
}

TEST(Charsmap, ReplacesAndChecksTheTrie) {
  using namespace std::string_view_literals;
  constexpr std::uint32_t kRoot = 0x100U << 10U;
  const Charsmap map(map_of_a(kRoot, 2, "x\0été\0"sv), "file");
  EXPECT_EQ(map.apply("BAAB"), "BétéétéB");
  EXPECT_EQ(map.apply(std::string("\0A", 2)), std::string("\0été", 6));
  // The rest of a short cluster is lost, that of a long one is not.
  EXPECT_EQ(map.apply("A\u0301"), "été");
  EXPECT_EQ(map.apply("A\u0301\u0301\u0301"), "été\u0301\u0301\u0301");
  EXPECT_EQ(Charsmap().apply("A"), "A");

  for (const std::string& bytes :
       {std::string(), word(8), word(0) + "x", word(4) + word(0x300U << 10U),
        map_of_a(0x300U << 10U, 2, "x\0y\0"sv),  // leads outside
        map_of_a(kRoot, 7, "x\0y\0"sv),          // a value outside
        map_of_a(kRoot, 2, "x\0y"sv),            // without its end
        map_of_a(kRoot, 3, "x\0é\0"sv),          // inside a character
        map_of_a(kRoot, 2, "x\0\xff\0"sv),       // not UTF-8
        map_of_a(kRoot, 2, "x\0" + std::string(300, 'y') + '\0')}) {
    EXPECT_EQ(error_of([&] { (void)Charsmap(bytes, "file"); }).code(),
              Errc::corrupt_file);
  }
}

}  // namespace
}  // namespace troupe::models

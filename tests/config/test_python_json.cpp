#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "config/python_json.h"

namespace troupe::config {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs members(std::string_view text) {
  Pairs pairs;
  for (const Member& member : members_of(text)) {
    pairs.emplace_back(member.key, std::string(member.value));
  }
  return pairs;
}

TEST(MembersOf, AreCutWhereTheyEnd) {
  EXPECT_EQ(
      members(R"( {"a" : 1 ,"b":[1, {"c": ","}], "d":"}\"," } )"),
      (Pairs{{"a", "1"}, {"b", R"([1, {"c": ","}])"}, {"d", R"("}\",")"}}));
  EXPECT_EQ(members(R"({"\u0061\"": null})"), (Pairs{{"a\"", "null"}}));
  EXPECT_EQ(members("\xef\xbb\xbf{\"a\":1}"), (Pairs{{"a", "1"}}));
  for (const char* none : {"", "{}", " ", "[]", "7", "\"a\"", "{,}", "{\"a"}) {
    EXPECT_EQ(members(none), Pairs{}) << none;
  }
}

/// Whatever the text: the parser says what is wrong with it.
TEST(MembersOf, LieWithinTheText) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same every time
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    const std::size_t size = random() % 12;
    while (text.size() < size) {
      text += R"({}[]",:\a1 )"[random() % 11];
    }
    for (const Member& member : members_of(text)) {
      ASSERT_GE(member.value.data(), text.data()) << text;
      ASSERT_LE(member.value.data() + member.value.size(),
                text.data() + text.size())
          << text;
    }
  }
}

}  // namespace
}  // namespace troupe::config

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/core/flat_table.h"
#include "kernels/core/inline_vector.h"

namespace troupe {
namespace {

using Inline = InlineVector<int, 3>;

std::vector<int> values_of(const Inline& values) {
  return {values.begin(), values.end()};
}

TEST(InlineVector, DoesAsAVectorDoes) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> expected;
    Inline got;
    for (int i = 0; i < 40; ++i) {
      switch (random() % 6) {
        case 0:
          if (!expected.empty()) {
            const auto place = random() % expected.size();
            expected.erase(expected.begin() +
                           static_cast<std::ptrdiff_t>(place));
            got.erase(got.begin() + place);
          }
          break;
        case 1: {
          const std::size_t size = random() % 8;
          expected.resize(size);
          got.resize(size);
          break;
        }
        case 2: {  // a copy that lives on its own
          Inline copy = got;
          copy.push_back(-1);
          got = copy;
          expected.push_back(-1);
          break;
        }
        case 3: {
          Inline other = std::move(got);
          got.clear();
          got = std::move(other);
          break;
        }
        default:
          expected.push_back(i);
          got.push_back(i);
      }
      ASSERT_EQ(values_of(got), expected) << "round " << round;
      ASSERT_EQ(got, Inline(expected.begin(), expected.end()));
    }
  }
}

TEST(InlineVector, TellsOfAPlaceThatIsNotThere) {
  const Inline two{1, 2};
  EXPECT_EQ(two.at(1), 2);
  EXPECT_THROW((void)two.at(2), Error);
}

TEST(InlineVector, WhatWasMovedFromIsEmpty) {
  Inline many{1, 2, 3, 4, 5};
  const Inline taken = std::move(many);
  EXPECT_EQ(taken.size(), 5U);
  EXPECT_TRUE(many.empty());  // NOLINT: that is what is tested
  many.push_back(9);
  EXPECT_EQ(values_of(many), std::vector<int>{9});
}

TEST(FlatTable, DoesAsAMapDoes) {
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    std::map<std::uint64_t, std::string> expected;
    FlatTable<std::uint64_t, std::string> got;
    std::uint64_t next = 0;
    for (int i = 0; i < 200; ++i) {
      // Mostly keys that rise, as in use.
      const std::uint64_t key = random() % 4 == 0 ? random() % 50 : next++;
      if (random() % 2 == 0) {
        expected[key] = std::to_string(i);
        got[key] = std::to_string(i);
      } else {
        const auto node = expected.extract(key);
        const auto taken = got.take(key);
        ASSERT_EQ(taken.has_value(), !node.empty());
        if (taken) {
          ASSERT_EQ(*taken, node.mapped());
        }
      }
      if (i % 50 == 49) {
        const auto is_odd = [](std::uint64_t odd) { return odd % 2 == 1; };
        std::erase_if(expected,
                      [&](const auto& entry) { return is_odd(entry.first); });
        got.erase_if(
            [&](std::uint64_t odd, const std::string&) { return is_odd(odd); });
      }
      std::map<std::uint64_t, std::string> all;
      for (const auto [k, value] : std::as_const(got)) {
        all.emplace_hint(all.end(), k, value);
      }
      ASSERT_EQ(all, expected) << "round " << round << ", step " << i;
      ASSERT_EQ(got.size(), expected.size());
      ASSERT_EQ(got.contains(key), expected.contains(key));
    }
  }
}

TEST(FlatTable, ANewEntryIsEmptyAlsoWhereAnotherWas) {
  FlatTable<int, std::string> table;
  table[1] = "one";
  EXPECT_EQ(table.take(1), "one");
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_EQ(table[2], "");
  EXPECT_THROW((void)table.at(1), Error);
}

}  // namespace
}  // namespace troupe

#include "kernels/core/error.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace troupe {
namespace {

TEST(Error, SaysWhereAndWhat) {
  const Error error(Errc::not_found, "checkpoint", "no file: got x", "try y");
  EXPECT_STREQ(error.what(), "[checkpoint] no file: got x");
  EXPECT_EQ(error.code(), Errc::not_found);
  EXPECT_EQ(error.place(), "checkpoint");
  EXPECT_EQ(error.hint(), "try y");
}

TEST(Errc, EveryCodeHasItsOwnNameAndSentence) {
  std::set<std::string_view> names;
  std::set<std::string_view> sentences;
  for (int i = 1; i <= static_cast<int>(Errc::terminated); ++i) {
    const auto code = static_cast<Errc>(i);
    names.insert(to_string(code));
    sentences.insert(describe(code));
    EXPECT_NE(describe(code).back(), '.');
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Errc::terminated));
  EXPECT_EQ(sentences.size(), static_cast<std::size_t>(Errc::terminated));
}

TEST(Errc, HasTheExitCodesOfTheCommandLine) {
  EXPECT_EQ(exit_code(Errc::internal), 1);
  EXPECT_EQ(exit_code(Errc::invalid_argument), 2);
  EXPECT_EQ(exit_code(Errc::job_failed), 3);
  EXPECT_EQ(exit_code(Errc::unreachable), 4);
  EXPECT_EQ(exit_code(Errc::mismatch), 5);
  EXPECT_EQ(exit_code(Errc::corrupt_file), 6);
  EXPECT_EQ(exit_code(Errc::items_failed), 7);
  EXPECT_EQ(exit_code(Errc::terminated), 75);
  EXPECT_EQ(exit_code(Errc::interrupted), 130);
}

TEST(Require, ThrowsOnlyWhenTheConditionFails) {
  EXPECT_NO_THROW(require(true, Errc::io, "a", "b"));
  EXPECT_THROW(require(false, Errc::io, "a", "b"), Error);
}

}  // namespace
}  // namespace troupe

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>

#include "kernels/core/system/exit_codes.h"

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
  for (int i = 1; i <= static_cast<int>(Errc::cancelled); ++i) {
    const auto code = static_cast<Errc>(i);
    names.insert(to_string(code));
    sentences.insert(describe(code));
    EXPECT_NE(describe(code).back(), '.');
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Errc::cancelled));
  EXPECT_EQ(sentences.size(), static_cast<std::size_t>(Errc::cancelled));
  EXPECT_EQ(all_error_codes().size(),
            static_cast<std::size_t>(Errc::cancelled));
}

TEST(Errc, EveryExitCodeHasItsRow) {
  std::set<int> numbers;
  for (const ExitCode& row : exit_codes()) {
    EXPECT_TRUE(numbers.insert(row.number).second) << row.number;
    EXPECT_NE(row.meaning.back(), '.');
    EXPECT_NE(row.advice.back(), '.');
  }
  for (const Errc code : all_error_codes()) {
    EXPECT_TRUE(numbers.contains(exit_code(code))) << to_string(code);
  }
}

TEST(Errc, TellsAFullDiskFromOtherRefusals) {
  for (const int reason : {ENOSPC, EDQUOT}) {
    EXPECT_EQ(file_error(reason), Errc::no_space);
  }
  for (const int reason : {EFBIG, EACCES, EIO, EROFS}) {
    EXPECT_EQ(file_error(reason), Errc::io);
  }
}

TEST(Errc, SaysWhatTheSameCommandMayDoLater) {
  for (const Errc code :
       {Errc::no_space, Errc::out_of_memory, Errc::device_full,
        Errc::device_lost, Errc::unreachable, Errc::terminated,
        Errc::interrupted}) {
    EXPECT_TRUE(is_retryable(code)) << to_string(code);
  }
  for (const Errc code :
       {Errc::internal, Errc::invalid_argument, Errc::io, Errc::corrupt_file,
        Errc::mismatch, Errc::another_class, Errc::cancelled}) {
    EXPECT_FALSE(is_retryable(code)) << to_string(code);
  }
}

TEST(Errc, HasTheExitCodesOfTheCommandLine) {
  EXPECT_EQ(exit_code(Errc::internal), 1);
  EXPECT_EQ(exit_code(Errc::invalid_argument), 2);
  EXPECT_EQ(exit_code(Errc::job_failed), 3);
  EXPECT_EQ(exit_code(Errc::unreachable), 4);
  EXPECT_EQ(exit_code(Errc::mismatch), 5);
  EXPECT_EQ(exit_code(Errc::corrupt_file), 6);
  EXPECT_EQ(exit_code(Errc::items_failed), 7);
  EXPECT_EQ(exit_code(Errc::another_class), 8);
  EXPECT_EQ(exit_code(Errc::cancelled), 9);
  EXPECT_EQ(exit_code(Errc::terminated), 75);
  EXPECT_EQ(exit_code(Errc::interrupted), 130);
}

TEST(Require, ThrowsOnlyWhenTheConditionFails) {
  EXPECT_NO_THROW(require(true, Errc::io, "a", "b"));
  EXPECT_THROW(require(false, Errc::io, "a", "b"), Error);
}

}  // namespace
}  // namespace troupe

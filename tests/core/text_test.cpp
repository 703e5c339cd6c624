#include "kernels/core/text.h"

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(Printable, KeepsWhatAReaderReads) {
  for (const char* text : {"", "tench, Tinca tinca", "naïve", "日本語", "🎭",
                           "\xf4\x8f\xbf\xbd", "می‌خواهم"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, ShowsNothingThatATerminalActsOn) {
  EXPECT_EQ(printable("\x1b[2J\x1b]0;x\x07"), "?[2J?]0;x?");
  EXPECT_EQ(printable("a\tb\r\nc"), "a b  c");
  EXPECT_EQ(printable(std::string_view("\0\x7f", 2)), "??");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "?31m");  // CSI in one character
}

TEST(Printable, ShowsNothingThatReordersOrHides) {
  for (const char* hidden :
       {"\u202e", "\u202a", "\u2066", "\u2069", "\u200e", "\u200f", "\u200b",
        "\u061c", "\u2028", "\ufeff", "\u2060", "\U000E0041"}) {
    EXPECT_EQ(printable(std::string("a") + hidden + "b"), "a?b");
  }
}

TEST(Printable, IsUtf8WhateverTheBytes) {
  // A byte that begins nothing, a lone continuation, overlong forms, a
  // surrogate, beyond the last code point, and characters that end early.
  EXPECT_EQ(printable("\xff"
                      "a\x80"),
            "?a?");
  EXPECT_EQ(printable("\xc0\xaf"), "??");
  EXPECT_EQ(printable("\xe0\x80\xaf"), "???");
  EXPECT_EQ(printable("\xed\xa0\x80"), "???");
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "????");
  EXPECT_EQ(printable("\xe6\x97"), "??");
  EXPECT_EQ(printable("\xf0\x9f\x8e"
                      "a"),
            "???a");
}

TEST(Printable, IsCutByCharacters) {
  const std::string long_text(1'000'000, 'x');
  EXPECT_EQ(printable(long_text), std::string(200, 'x') + "…");
  std::string wide;
  for (int i = 0; i < 201; ++i) {
    wide += "語";
  }
  EXPECT_EQ(printable(wide), wide.substr(0, 600) + "…");
  EXPECT_EQ(printable("abc", 3), "abc");
  EXPECT_EQ(printable("abcd", 3), "abc…");
}

TEST(InQuotes, StandsInQuotes) { EXPECT_EQ(in_quotes("a\nb"), "'a b'"); }

TEST(Counted, HasItsPlural) {
  EXPECT_EQ(counted(0, "image"), "0 images");
  EXPECT_EQ(counted(1, "image"), "1 image");
  EXPECT_EQ(counted(2, "image"), "2 images");
}

TEST(Trimmed, LosesTheWhiteSpaceAroundIt) {
  EXPECT_EQ(trimmed(" \ta b\r\n"), "a b");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(Lowered, ChangesLettersOfAsciiOnly) {
  EXPECT_EQ(lowered("AzZ9É"), "azz9É");
}

}  // namespace
}  // namespace troupe

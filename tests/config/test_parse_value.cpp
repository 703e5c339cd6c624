#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "config/parse_value.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

template <typename Fn>
std::string message_of(const Fn& fn) {
  try {
    fn();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    return error.what();
  }
  return "no error";
}

TEST(ParseInteger, TakesTheWholeTextOrNothing) {
  EXPECT_EQ(parse_integer("x", "50", 1, 100), 50);
  for (const char* bad : {"", "5x", "0x5", "5.0", "101", "0", "-3", "1e2"}) {
    EXPECT_NE(message_of([&] { (void)parse_integer("x", bad, 1, 100); }),
              "no error")
        << bad;
  }
}

TEST(ParseReal, RefusesNaNAndInfinity) {
  EXPECT_EQ(parse_real("x", "7.5", 0, 10), 7.5);
  for (const char* bad : {"nan", "NaN", "inf", "-inf", "1e999", "", "4,5"}) {
    EXPECT_NE(message_of([&] { (void)parse_real("x", bad, -1e300, 1e300); }),
              "no error")
        << bad;
  }
}

TEST(ParseReal, SaysWhatItGotAndExpected) {
  EXPECT_EQ(message_of([] { (void)parse_real("--eta", "2", 0, 1); }),
            "[--eta] cannot use this value: got '2', expected a finite number "
            "from 0 to 1");
}

TEST(ParseSeconds, ReadsPlainSecondsAndUnits) {
  const auto read = [](const char* text) {
    return parse_seconds("--wait", text, 0, 1e7);
  };
  EXPECT_EQ(read("60"), 60);
  EXPECT_EQ(read("0.25"), 0.25);
  EXPECT_EQ(read("60s"), 60);
  EXPECT_EQ(read(" 1.5m "), 90);
  EXPECT_EQ(read("2h"), 7200);
  EXPECT_EQ(read("1e3s"), 1000);
  EXPECT_EQ(read("0"), 0);
}

TEST(ParseSeconds, RefusesWhatIsNoTime) {
  for (const char* bad :
       {"", " ", "s", "h", "60 s", "60S", "1m30s", "5d", "60ss", "ms", "5ms",
        "-1s", "nan", "infs", "nanh", "1e999", "3000h", "10000001"}) {
    EXPECT_THROW((void)parse_seconds("--wait", bad, 0, 1e7), Error) << bad;
  }
  EXPECT_EQ(message_of([] { (void)parse_seconds("--wait", "60x", 0, 1e7); }),
            "[--wait] cannot use this value: got '60x', expected a time such "
            "as 60, 60s, 5m or 1h");
  EXPECT_EQ(message_of([] { (void)parse_seconds("--wait", "3000h", 0, 1e7); }),
            "[--wait] cannot use this value: got '3000h', expected a time from "
            "0 to 2777h, such as 60, 60s, 5m or 1h");
  EXPECT_EQ(message_of([] { (void)parse_seconds("--wait", "-1", 0, 600); }),
            "[--wait] cannot use this value: got '-1', expected a time from 0 "
            "to 600s, such as 60, 60s, 5m or 1h");
}

TEST(ParseWaitWorkers, ReadsProcessesATimeOrBoth) {
  const auto read = [](const char* text) {
    return parse_wait_workers("--wait-workers", text);
  };
  EXPECT_EQ(read("4"), (WaitWorkers{4, {}}));
  EXPECT_EQ(read("30s"), (WaitWorkers{0, 30}));
  EXPECT_EQ(read("4,0.5m"), (WaitWorkers{4, 30}));
  EXPECT_EQ(read("1h, 4"), (WaitWorkers{4, 3600}));
  for (const char* text : {"4", "30s", "4,30s", "0.2s"}) {
    EXPECT_EQ(to_string(read(text)), text);
  }
  for (const char* bad : {"", "0", "-1", "1.5", "4,5", "30s,5m", "4,30s,1",
                          "soon", "4,", "s", "-1s", "100001"}) {
    EXPECT_THROW((void)read(bad), Error) << bad;
  }
  EXPECT_EQ(message_of([&] { (void)read("4,5"); }),
            "[--wait-workers] cannot use this value: got '4,5', expected a "
            "number of processes, a time with its unit, or both: 4, 30s or "
            "4,30s");
}

TEST(ParseSeed, TakesWhatTorchTakes) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(parse_seed("x", "0"), 0U);
  EXPECT_EQ(parse_seed("x", "18446744073709551615"), kMost);
  EXPECT_EQ(parse_seed("x", "-1"), kMost);
  EXPECT_EQ(parse_seed("x", " -2 "), kMost - 1);
  EXPECT_EQ(parse_seed("x", "-9223372036854775808"), std::uint64_t{1} << 63U);
  for (const char* text :
       {"18446744073709551616", "-9223372036854775809", "1.5", "-", ""}) {
    const std::string message =
        message_of([text] { (void)parse_seed("--seed", text); });
    EXPECT_NE(message.find("-9223372036854775808 to 18446744073709551615"),
              std::string::npos)
        << message;
  }
}

TEST(ParseRange, ReadsCountsAndIndexRanges) {
  EXPECT_EQ(parse_range("x", "8"), (SampleRange{0, 8}));
  EXPECT_EQ(parse_range("x", "8:16"), (SampleRange{8, 16}));
  EXPECT_EQ(to_string(SampleRange{8, 16}), "8:16");
  EXPECT_EQ(to_string(SampleRange{0, 8}), "8");
}

TEST(ParseRange, RefusesEmptyBackwardAndAbsurdRanges) {
  for (const char* bad : {"0", "8:8", "9:8", ":", "3:", ":3", "a:b", "1:2:3",
                          "99999999999", "0:281474976710657", "-1"}) {
    EXPECT_NE(message_of([&] { (void)parse_range("x", bad); }), "no error")
        << bad;
  }
}

TEST(ParseShare, CutsARunIntoPartsThatMakeAllOfIt) {
  for (const SampleRange& run : {SampleRange{0, 10}, SampleRange{7, 9}}) {
    std::uint64_t next = run.begin;
    for (const char* text : {"0/4", "1/4", " 2 / 4", "3/4"}) {
      const SampleRange part = parse_share("x", text).of(run);
      EXPECT_EQ(part.begin, next) << text;
      EXPECT_LE(part.size(), run.size() / 4 + 1) << text;
      next = part.end;
    }
    EXPECT_EQ(next, run.end);
  }
  for (const char* bad :
       {"4/4", "0", "/", "0/", "/4", "0/0", "-1/4", "0/1/2"}) {
    EXPECT_NE(message_of([&] { (void)parse_share("x", bad); }), "no error")
        << bad;
  }
}

TEST(ParseList, DropsSpacesAndRefusesGaps) {
  EXPECT_EQ(parse_list("x", " a , b c,d"),
            (std::vector<std::string>{"a", "b c", "d"}));
  EXPECT_TRUE(parse_list("x", "  ").empty());
  for (const char* bad : {"a,,b", ",a", "a,"}) {
    EXPECT_NE(message_of([&] { (void)parse_list("x", bad); }), "no error");
  }
}

TEST(ParseChoice, NamesTheNearestChoice) {
  try {
    (void)parse_choice("--method", "picrad", {"sequential", "picard"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.hint(), "did you mean 'picard'?");
  }
}

TEST(ParseMessages, HideControlCharacters) {
  EXPECT_EQ(message_of([] { (void)parse_bool("x", "\x1b[2J"); }),
            "[x] cannot use this value: got '?[2J', expected true or false");
}

TEST(ToText, ReadsBackToTheSameDouble) {
  for (const double value : {0.1, 1.0 / 3.0, 14.6146, 1e-9, 50.0}) {
    EXPECT_EQ(parse_real("x", to_text(value), -1e300, 1e300), value);
  }
}

TEST(ParseValue, ReadsASizeAsWidthAndHeight) {
  EXPECT_EQ(parse_size("--size", "512x384"), (PictureSize{512, 384}));
  EXPECT_EQ(parse_size("--size", " 64X32 "), (PictureSize{64, 32}));
  EXPECT_EQ(parse_size("--size", "48"), (PictureSize{48, 48}));
  EXPECT_EQ(to_string(PictureSize{512, 384}), "512x384");
  for (const char* wrong : {"", "x", "8x", "x8", "0x8", "8x0", "-8x8", "8x8x8",
                            "8.5x8", "16385x8", "99999999999999999999x8"}) {
    EXPECT_THROW((void)parse_size("--size", wrong), Error) << wrong;
  }
}

}  // namespace
}  // namespace troupe::config

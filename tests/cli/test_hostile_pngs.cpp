#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(value >> static_cast<unsigned>(shift));
  }
  return bytes;
}

/// A PNG of one pixel that ends with a chunk of eight bytes: no more than the
/// length it claims and its name.
std::string claiming(const std::string& chunk, std::uint32_t length) {
  const std::string header(
      "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x8\2\0\0\0\x90wS\xde", 33);
  return header + big_endian(length) + chunk;
}

constexpr std::uint32_t kMost = 0x7FFFFFFF;

class HostileChunk : public testing::TestWithParam<const char*> {};

/// Every way in which a stranger's PNG is read.
TEST_P(HostileChunk, OfTwoGigabytesTakesNoMemoryAnywhere) {
  const TempFolder folder;
  const std::string content = claiming(GetParam(), kMost);
  ASSERT_EQ(content.size(), 41U);
  const std::string png = folder.write("a.png", content);
  const std::string kept = folder.path("latents.npz");
  const std::string lie = "claims 2147483647 bytes";
  struct Command {
    std::vector<std::string> arguments;
    int exit_code;
    std::string says;
  };
  const std::vector<Command> all = {
      {{"inspect", png}, 6, lie},
      {{"verify", png}, 6, lie},
      {{"sample", "--from", png, "--save", "latents=" + kept}, 6, lie}};
  for (const Command& way : all) {
    const Outcome outcome = run(way.arguments);
    const std::string what = testing::PrintToString(way.arguments);
    EXPECT_EQ(outcome.exit_code, way.exit_code) << what << outcome.err;
    EXPECT_EQ(outcome.err_lines(), 1) << what << outcome.err;
    EXPECT_NE(outcome.err.find(way.says), std::string::npos)
        << what << outcome.err;
    if (!is_sanitized()) {
      EXPECT_LT(outcome.peak_rss_bytes, 256U << 20U) << what;
    }
    EXPECT_EQ(folder.names(), std::vector<std::string>{"a.png"}) << what;
    EXPECT_EQ(folder.read("a.png"), content) << what;
  }
  // A run takes it for a picture of its own that a power cut has left.
  for (const std::string flag : {"--out", "--grid", "--preview"}) {
    (void)folder.write("a.png", content);
    const Outcome anew =
        run(tiny_sample({"--save", "latents=" + folder.path(flag + ".npz"),
                         flag, png, "--exists", "skip"}));
    EXPECT_EQ(anew.exit_code, 0) << anew.err;
    EXPECT_NE(anew.err.find("made anew"), std::string::npos) << anew.err;
    EXPECT_NE(folder.read("a.png"), content) << flag;
    if (!is_sanitized()) {
      EXPECT_LT(anew.peak_rss_bytes, 256U << 20U) << flag;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, HostileChunk,
                         testing::Values("iTXt", "tEXt", "zTXt", "iCCP", "sPLT",
                                         "eXIf", "PLTE", "abCd"));

TEST(HostilePng, LongerThanAnyIsSaidWithItsFlag) {
  const TempFolder folder;
  const std::string png =
      folder.write("a.png", std::string("\x89PNG\r\n\x1a\n", 8));
  std::filesystem::resize_file(png, 300U << 20U);  // takes no space
  const std::string kept = "latents=" + folder.path("latents.npz");
  const Outcome sheet =
      run(tiny_sample({"--save", kept, "--grid", png, "--exists", "skip"}));
  EXPECT_EQ(sheet.exit_code, 2);
  EXPECT_NE(sheet.err.find("[--grid] what is there is no contact sheet"),
            std::string::npos)
      << sheet.err;
  const Outcome image = run(tiny_sample({"-o", png, "--exists", "skip"}));
  EXPECT_EQ(image.exit_code, 6);
  EXPECT_NE(image.err.find("a.png] not a readable PNG: it is longer than"),
            std::string::npos)
      << image.err;
}

/// The checksum of PNG, bit by bit.
std::string checksum(const std::string& bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
    }
  }
  return big_endian(~crc);
}

TEST(HostilePng, OfBrokenPixelsAndNoRecipeIsOfNoJob) {
  const TempFolder folder;
  const std::string pixels = "IDAT no zlib stream";
  const std::string png =
      folder.write("a.png", claiming("", 15).substr(0, 33) + big_endian(15) +
                                pixels + checksum(pixels) + big_endian(0) +
                                "IEND" + checksum("IEND"));
  const Outcome outcome = run(tiny_sample({"-o", png, "--exists", "skip"}));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("an image without a recipe is there"),
            std::string::npos)
      << outcome.err;
}

TEST(HostilePng, OfAPipeIsNotWaitedFor) {
  const TempFolder folder;
  const std::string pipe = folder.path("a.png");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Outcome outcome =
      run(tiny_sample({"--save", "latents=" + folder.path("latents.npz"),
                       "--grid", pipe, "--exists", "skip"}));
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
}

}  // namespace
}  // namespace troupe::test

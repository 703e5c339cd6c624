#include <gtest/gtest.h>
#include <png.h>

#include <array>
#include <limits>

#include "actors/artefacts/png.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

Image gradient(int width, int height) {
  Image image{.width = width, .height = height, .rgb = {}, .recipe = {}};
  for (int i = 0; i < width * height * 3; ++i) {
    image.rgb.push_back(static_cast<std::uint8_t>(i * 7));
  }
  return image;
}

Errc code_of(std::span<const std::byte> bytes) {
  try {
    (void)decode_png("x.png", bytes);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("x.png"), std::string::npos);
    return error.code();
  }
  return Errc::internal;
}

/// Sets a big-endian 32-bit number and leaves the checksum wrong or right.
void put_big(std::vector<std::byte>& bytes, std::size_t at,
             std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[at + i] = static_cast<std::byte>(value >> (24 - 8 * i));
  }
}

std::uint32_t crc32(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
    }
  }
  return ~crc;
}

TEST(Png, RoundTripsPixelsAndRecipe) {
  for (const auto& [width, height] : {std::pair{1, 1}, {3, 5}, {64, 2}}) {
    Image image = gradient(width, height);
    image.recipe = R"({"class":"fruit ä","seed":7})";
    const Image back = decode_png("x.png", encode_png(image));
    EXPECT_EQ(back.width, width);
    EXPECT_EQ(back.height, height);
    EXPECT_EQ(back.rgb, image.rgb);
    EXPECT_EQ(back.recipe, image.recipe);
    EXPECT_EQ(back.kind, PictureKind::image);
  }
}

TEST(Png, RoundTripsTheKindOfPicture) {
  for (const PictureKind kind : {PictureKind::sheet, PictureKind::preview}) {
    Image image = gradient(3, 5);
    image.kind = kind;
    EXPECT_EQ(decode_png("x.png", encode_png(image)).kind, kind);
  }
}

TEST(Png, WritesEqualBytesForEqualImages) {
  EXPECT_EQ(encode_png(gradient(9, 9)), encode_png(gradient(9, 9)));
}

TEST(Png, ReadsAnImageWithoutARecipe) {
  EXPECT_EQ(decode_png("x.png", encode_png(gradient(2, 2))).recipe, "");
}

TEST(Png, RefusesEveryTruncation) {
  Image image = gradient(4, 4);
  image.recipe = "{}";
  const std::vector<std::byte> whole = encode_png(image);
  // The last twelve bytes are the empty end chunk.
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(code_of(std::span(whole).first(size)), Errc::corrupt_file)
        << size;
  }
}

TEST(Png, SurvivesEveryFlippedByte) {
  Image image = gradient(4, 4);
  image.recipe = "{}";
  const std::vector<std::byte> whole = encode_png(image);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::vector<std::byte> bad = whole;
    bad[at] ^= std::byte{0x55};
    try {
      const Image read = decode_png("x.png", bad);
      EXPECT_LE(read.rgb.size(), 48U);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::corrupt_file);
    }
  }
}

TEST(Png, RefusesAHeaderThatPromisesMoreThanTheFileHolds) {
  std::vector<std::byte> bytes = encode_png(gradient(4, 4));
  constexpr std::size_t kWidth = 16;
  constexpr std::size_t kHeaderType = 12;
  constexpr std::size_t kCrc = 29;
  put_big(bytes, kWidth, 16000);
  put_big(bytes, kWidth + 4, 16000);
  put_big(bytes, kCrc, crc32(std::span(bytes).subspan(kHeaderType, 17)));
  EXPECT_EQ(code_of(bytes), Errc::corrupt_file);
}

TEST(Png, SaysWhatEightBitsOfColourLeaveOut) {
  // One pixel of 16-bit RGBA.
  constexpr std::array<unsigned char, 69> kFile = {
      0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d,
      0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01,
      0x10, 0x06, 0x00, 0x00, 0x00, 0x4f, 0x85, 0x18, 0xca, 0x00, 0x00, 0x00,
      0x0c, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x10, 0x32, 0x81, 0x40,
      0x00, 0x04, 0xb1, 0x01, 0x19, 0xfd, 0xb8, 0xaa, 0x4f, 0x00, 0x00, 0x00,
      0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
  const Image image = decode_png("x", std::as_bytes(std::span(kFile)));
  EXPECT_EQ(image.stored.bit_depth, 16);
  EXPECT_TRUE(image.stored.has_alpha);
  EXPECT_EQ(decode_png("x", encode_png(image)).stored, StoredColour{});
}

TEST(Png, RefusesWhatIsNoPng) {
  const std::string text = "GIF89a and so on";
  EXPECT_EQ(code_of(std::as_bytes(std::span(text))), Errc::corrupt_file);
  EXPECT_EQ(code_of({}), Errc::corrupt_file);
}

TEST(ToImage, RoundsLikeNumpyAndClamps) {
  const std::vector<float> values = {-2.0F, -1.0F, 0.0F, 1.0F, 5.0F, 0.5F};
  const Image image = to_image(Tensor::from<float>(values, {1, 2, 3}));
  const std::vector<std::uint8_t> expected = {0,   0,   0,   0,   0,   0,
                                              128, 128, 128, 255, 255, 255,
                                              255, 255, 255, 191, 191, 191};
  EXPECT_EQ(image.rgb, expected);
}

TEST(ToImage, RefusesNaNAndOtherShapes) {
  const std::vector<float> nan = {0.0F,
                                  std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THROW((void)to_image(Tensor::from<float>(nan, {1, 1, 2})), Error);
  EXPECT_THROW((void)to_image(Tensor::zeros({4, 2, 2}, DType::f32)), Error);
}

}  // namespace
}  // namespace troupe::actors

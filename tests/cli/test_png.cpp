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

/// The bytes of all chunks of this name, one after the other.
std::vector<std::byte> content_of(std::span<const std::byte> png,
                                  std::string_view name) {
  constexpr std::size_t kSignature = 8;
  constexpr std::size_t kFrame = 12;
  std::vector<std::byte> content;
  for (std::size_t at = kSignature; at < png.size();) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      length = length << 8U | std::to_integer<std::size_t>(png[at + i]);
    }
    const auto* text = reinterpret_cast<const char*>(png.data() + at + 4);
    if (std::string_view(text, 4) == name) {
      const auto data = png.subspan(at + 8, length);
      content.insert(content.end(), data.begin(), data.end());
    }
    at += kFrame + length;
  }
  return content;
}

/// A chunk with its checksum.
std::vector<std::byte> chunk(std::string_view name,
                             std::span<const std::byte> content) {
  std::vector<std::byte> bytes(4);
  put_big(bytes, 0, static_cast<std::uint32_t>(content.size()));
  for (const char letter : name) {
    bytes.push_back(static_cast<std::byte>(letter));
  }
  bytes.insert(bytes.end(), content.begin(), content.end());
  const std::uint32_t sum = crc32(std::span(bytes).subspan(4));
  bytes.resize(bytes.size() + 4);
  put_big(bytes, bytes.size() - 4, sum);
  return bytes;
}

/// With `more` before the chunk of this name; `replaced`: and without it.
std::vector<std::byte> with(std::span<const std::byte> png,
                            std::string_view before, bool replaced,
                            std::span<const std::byte> more) {
  const std::string_view text(reinterpret_cast<const char*>(png.data()),
                              png.size());
  const std::size_t at = text.find(before) - 4;
  std::vector<std::byte> bytes(png.begin(), png.begin() + std::ssize(png));
  bytes.resize(at);
  bytes.insert(bytes.end(), more.begin(), more.end());
  const std::size_t skipped =
      replaced ? content_of(png, before).size() + 12 : 0;
  bytes.insert(bytes.end(),
               png.begin() + static_cast<std::ptrdiff_t>(at + skipped),
               png.end());
  return bytes;
}

TEST(Png, RefusesPixelsThatGoOnBehindTheLast) {
  // 108 MB of zeros in a hundred kilobytes, behind one pixel.
  const std::vector<std::byte> zeros = content_of(
      encode_png({.width = 6000,
                  .height = 6000,
                  .rgb = std::vector<std::uint8_t>(std::size_t{108'000'000}),
                  .recipe = {}}),
      "IDAT");
  const auto png = encode_png(gradient(1, 1));
  EXPECT_EQ(code_of(with(png, "IDAT", true, chunk("IDAT", zeros))),
            Errc::corrupt_file);
}

TEST(Png, PassesOverLargeChunksThatItDoesNotNeed) {
  Image image = gradient(3, 2);
  image.recipe = "{}";
  const auto png = encode_png(image);
  const std::vector<std::byte> large(std::size_t{5} << 20U, std::byte{'x'});
  for (const char* name : {"tEXt", "iTXt", "zTXt", "iCCP", "prVt"}) {
    for (const char* before : {"iTXt", "IDAT", "IEND"}) {
      const Image read =
          decode_png("x.png", with(png, before, false, chunk(name, large)));
      EXPECT_EQ(read.rgb, image.rgb) << name << before;
      EXPECT_EQ(read.recipe, "{}") << name << before;
    }
  }
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

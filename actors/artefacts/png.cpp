#include "actors/artefacts/png.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "actors/artefacts/png_chunks.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/pixel_bytes.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

constexpr const char* kDamaged =
    "the file is damaged: get it again, or make it anew";
constexpr std::array<std::string_view, 3> kKinds = {"image", "sheet",
                                                    "preview"};
constexpr std::uint32_t kMaxSide = 16384;
constexpr std::size_t kMaxRecipeBytes = std::size_t{1} << 20U;
constexpr std::size_t kMaxImageBytes = std::size_t{256} << 20U;
/// Around a recipe: its keyword and the names of its language.
constexpr std::size_t kMaxChunkBytes = kMaxRecipeBytes + 1024;

/// What libpng's callbacks see. The message is kept here because libpng is C:
/// its error handler may not return, and ours throws through C frames built
/// with unwind tables (as Debian builds them).
struct Session {
  std::string place;
  std::span<const std::byte> input;
  std::vector<PngChunk> passed_over;  ///< of the input, from the last back
  std::size_t at = 0;                 ///< where the next read begins
  /// Bytes that may still be read.
  std::size_t budget = std::numeric_limits<std::size_t>::max();
  std::vector<std::byte>* output = nullptr;
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  const auto* session = static_cast<Session*>(png_get_error_ptr(png));
  throw Error(Errc::corrupt_file, session->place,
              std::string("not a readable PNG: ") + message,
              "get the file again, or make it anew with troupe sample");
}

void on_warning(png_structp /*png*/, png_const_charp /*message*/) {}

void read_bytes(png_structp png, png_bytep out, std::size_t count) {
  auto* session = static_cast<Session*>(png_get_io_ptr(png));
  while (!session->passed_over.empty() &&
         session->at == session->passed_over.back().begin) {
    session->at = session->passed_over.back().end();
    session->passed_over.pop_back();
  }
  if (count > session->budget) {
    png_error(png, "more compressed bytes than its pixels need");
  }
  if (count > session->input.size() - session->at) {
    png_error(png, "the file ends too early");
  }
  std::memcpy(out, session->input.data() + session->at, count);
  session->at += count;
  session->budget -= count;
}

void write_bytes(png_structp png, png_bytep data, std::size_t count) {
  auto* session = static_cast<Session*>(png_get_io_ptr(png));
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  session->output->insert(session->output->end(), begin, begin + count);
}

void flush_nothing(png_structp /*png*/) {}

struct Reader {
  explicit Reader(Session& session)
      : png(png_create_read_struct(PNG_LIBPNG_VER_STRING, &session, on_error,
                                   on_warning)) {
    require(png != nullptr, Errc::out_of_memory, "png", "cannot start libpng");
    info = png_create_info_struct(png);
    png_set_read_fn(png, &session, read_bytes);
    png_set_user_limits(png, kMaxSide, kMaxSide);
    png_set_chunk_cache_max(png, 64);
    png_set_chunk_malloc_max(png, kMaxRecipeBytes);
  }
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  png_structp png;
  png_infop info = nullptr;
};

struct Writer {
  explicit Writer(Session& session)
      : png(png_create_write_struct(PNG_LIBPNG_VER_STRING, &session, on_error,
                                    on_warning)) {
    require(png != nullptr, Errc::out_of_memory, "png", "cannot start libpng");
    info = png_create_info_struct(png);
    png_set_write_fn(png, &session, write_bytes, flush_nothing);
  }
  ~Writer() { png_destroy_write_struct(&png, &info); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  png_structp png;
  png_infop info = nullptr;
};

std::string find_text(png_structp png, png_infop info, const char* keyword) {
  png_textp texts = nullptr;
  int count = 0;
  png_get_text(png, info, &texts, &count);
  for (const png_text& text :
       std::span(texts, static_cast<std::size_t>(count))) {
    if (std::strcmp(text.key, keyword) == 0 && text.text != nullptr) {
      const std::string_view value = text.text;  // libpng ends it with a zero
      if (value.size() <= kMaxRecipeBytes) {
        return std::string(value);
      }
    }
  }
  return {};
}

/// A text chunk that is not compressed; none for an empty text.
void write_text(png_structp png, png_infop info, int compression,
                std::string keyword, std::string text) {
  if (!text.empty()) {
    png_text chunk{};
    chunk.compression = compression;
    chunk.key = keyword.data();
    chunk.text = text.data();  // libpng counts its bytes itself
    png_set_text(png, info, &chunk, 1);
  }
}

void write_texts(const Image& image, png_structp png, png_infop info) {
  write_text(png, info, PNG_ITXT_COMPRESSION_NONE, kRecipeKeyword,
             image.recipe);
  if (image.kind != PictureKind::image) {
    write_text(png, info, PNG_TEXT_COMPRESSION_NONE, kKindKeyword,
               std::string(kKinds[static_cast<std::size_t>(image.kind)]));
  }
}

std::string colour_space(png_structp png, png_infop info) {
  std::vector<std::string> space;
  png_fixed_point gamma = 0;
  if (png_get_gAMA_fixed(png, info, &gamma) != 0) {
    space.push_back("gAMA " + std::to_string(gamma));
  }
  int intent = 0;
  if (png_get_sRGB(png, info, &intent) != 0) {
    space.push_back("sRGB " + std::to_string(intent));
  }
  png_charp name = nullptr;
  png_bytep profile = nullptr;
  png_uint_32 size = 0;
  int compression = 0;
  if (png_get_iCCP(png, info, &name, &compression, &profile, &size) != 0) {
    const auto bytes = std::as_bytes(std::span(profile, size));
    space.push_back("iCCP " + to_hex(xxh3_64(bytes)));
  }
  return fmt::format("{}", fmt::join(space, ", "));
}

bool has_alpha(png_structp png, png_infop info) {
  return (png_get_color_type(png, info) & PNG_COLOR_MASK_ALPHA) != 0 ||
         png_get_valid(png, info, PNG_INFO_tRNS) != 0;
}

StoredColour stored_colour(png_structp png, png_infop info) {
  return {.bit_depth = std::max<int>(8, png_get_bit_depth(png, info)),
          .has_alpha = has_alpha(png, info),
          .space = colour_space(png, info)};
}

/// Every colour type becomes 8-bit RGB.
void ask_for_rgb(png_structp png, png_infop info) {
  png_set_strip_16(png);
  png_set_expand(png);
  png_set_gray_to_rgb(png);
  png_color_16 black{};
  if (has_alpha(png, info)) {
    png_set_background(png, &black, PNG_BACKGROUND_GAMMA_SCREEN, 0, 1.0);
  }
}

/// What is wrong with a chunk that lies in the file; empty: nothing.
std::string fault_of(const PngChunk& chunk, bool is_first, bool is_ancillary) {
  constexpr std::size_t kHeaderBytes = 13;
  if (is_first != (chunk.name == "IHDR") ||
      (is_first && chunk.content.size() != kHeaderBytes)) {
    return fmt::format("the chunk {} at byte {} is not where or what it may be",
                       chunk.name, chunk.begin);
  }
  if (chunk.content.size() > kMaxChunkBytes && chunk.name != "IDAT" &&
      !is_ancillary) {
    return fmt::format(
        "the chunk {} at byte {} has {} bytes, at most {} make sense",
        chunk.name, chunk.begin, chunk.content.size(), kMaxChunkBytes);
  }
  return {};
}

/// Chunks that are not needed for the pixels and too large to be held, the last
/// one first. Errors: Errc::corrupt_file for chunks that no PNG can have.
std::vector<PngChunk> large_chunks(const std::string& place,
                                   std::span<const std::byte> bytes) {
  const auto check = [&place](const std::string& fault) {
    require(fault.empty(), Errc::corrupt_file, place,
            "not a readable PNG: " + fault, kDamaged);
  };
  const PngChunks chunks = png_chunks(bytes);
  std::vector<PngChunk> large;
  for (const PngChunk& chunk : chunks.whole) {
    // The fifth bit of the first letter.
    const bool is_ancillary = chunk.name[0] >= 'a' && chunk.name[0] <= 'z';
    check(fault_of(chunk, &chunk == &chunks.whole.front(), is_ancillary));
    if (chunk.content.size() > kMaxChunkBytes && is_ancillary) {
      large.push_back(chunk);
    }
  }
  check(chunks.fault);
  std::ranges::reverse(large);
  return large;
}

}  // namespace

Image to_image(const Tensor& pixels) {
  if (pixels.dtype() == DType::f32) {
    return to_image(pixel_bytes(pixels));
  }
  const Shape& shape = pixels.shape();
  require(shape.rank() == 3 && (shape[0] == 3 || shape[0] == 1) &&
              shape.num_elements() > 0,
          Errc::shape_mismatch, "png",
          "pixels of an image: got " + to_string(shape) +
              ", expected [3, H, W] or [1, H, W]");
  Image image{.width = static_cast<int>(shape[2]),
              .height = static_cast<int>(shape[1]),
              .is_grey = shape[0] == 1};
  const std::int64_t plane = shape[1] * shape[2];
  const auto* const values =
      reinterpret_cast<const std::uint8_t*>(pixels.bytes().data());
  image.rgb.resize(static_cast<std::size_t>(plane) * 3);
  for (std::int64_t i = 0; i < plane; ++i) {
    for (std::int64_t channel = 0; channel < 3; ++channel) {
      image.rgb[static_cast<std::size_t>(i * 3 + channel)] =
          values[(shape[0] == 3 ? channel : 0) * plane + i];
    }
  }
  return image;
}

std::vector<std::byte> encode_png(const Image& image) {
  require(image.width > 0 && image.height > 0 &&
              image.rgb.size() == static_cast<std::size_t>(image.width) *
                                      static_cast<std::size_t>(image.height) *
                                      3,
          Errc::internal, "png", "an image without its pixels");
  std::vector<std::byte> bytes;
  Session session{.place = "png", .output = &bytes};
  Writer writer(session);
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(image.width),
               static_cast<png_uint_32>(image.height), 8,
               image.is_grey ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_set_compression_level(writer.png, 6);
  png_set_filter(writer.png, PNG_FILTER_TYPE_BASE, PNG_FILTER_PAETH);
  write_texts(image, writer.png, writer.info);
  png_write_info(writer.png, writer.info);
  const std::size_t stride = static_cast<std::size_t>(image.width) * 3;
  std::vector<std::uint8_t> grey(
      image.is_grey ? static_cast<std::size_t>(image.width) : 0);
  for (int row = 0; row < image.height; ++row) {
    const std::uint8_t* line =
        image.rgb.data() + static_cast<std::size_t>(row) * stride;
    for (std::size_t x = 0; x < grey.size(); ++x) {
      grey[x] = line[3 * x];
    }
    png_write_row(writer.png, image.is_grey ? grey.data() : line);
  }
  png_write_end(writer.png, writer.info);
  return bytes;
}

bool is_png_name(std::string_view path) {
  constexpr std::size_t kEnding = 4;
  return path.size() >= kEnding &&
         lowered(path.substr(path.size() - kEnding)) == ".png";
}

PictureKind picture_kind(std::string_view text) {
  const auto* found = std::ranges::find(kKinds, text);
  return found == kKinds.end()
             ? PictureKind::image
             : static_cast<PictureKind>(found - kKinds.begin());
}

Image decode_png(const std::string& place, std::span<const std::byte> bytes) {
  require(is_png(bytes), Errc::corrupt_file, place,
          "not a PNG: the first eight bytes are not its signature",
          "give an image that troupe sample wrote");
  Session session{.place = place,
                  .input = bytes,
                  .passed_over = large_chunks(place, bytes)};
  Reader reader(session);
  png_read_info(reader.png, reader.info);
  const std::size_t width = png_get_image_width(reader.png, reader.info);
  const std::size_t height = png_get_image_height(reader.png, reader.info);
  // Deflate shrinks at most about 1032 times: a small file with a large
  // header lies, and is refused before anything is allocated.
  constexpr std::size_t kMaxRatio = 1100;
  require(width * height * 3 <= kMaxImageBytes &&
              width * height / 8 <= bytes.size() * kMaxRatio,
          Errc::corrupt_file, place,
          "the PNG's header promises more pixels than the file can hold",
          kDamaged);
  StoredColour stored = stored_colour(reader.png, reader.info);
  ask_for_rgb(reader.png, reader.info);
  const int passes = png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  const std::size_t stride = png_get_rowbytes(reader.png, reader.info);
  // The most that a row may need: uncompressed, in many small chunks. A file
  // that takes more bytes for a row is making no pixels of them.
  constexpr std::size_t kMaxPixelBytes = 8;
  constexpr std::size_t kFew = std::size_t{64} << 10U;
  const std::size_t row_budget = 2 * width * kMaxPixelBytes + kFew;
  require(stride == width * 3, Errc::corrupt_file, place,
          "the PNG has a colour type that cannot be read", kDamaged);
  Image image{.width = static_cast<int>(width),
              .height = static_cast<int>(height),
              .rgb = std::vector<std::uint8_t>(stride * height),
              .stored = std::move(stored)};
  for (int pass = 0; pass < passes; ++pass) {
    for (std::size_t row = 0; row < height; ++row) {
      session.budget = row_budget;
      png_read_row(reader.png, image.rgb.data() + row * stride, nullptr);
    }
  }
  session.budget = std::numeric_limits<std::size_t>::max();
  png_read_end(reader.png, reader.info);
  image.recipe = find_text(reader.png, reader.info, kRecipeKeyword);
  image.kind = picture_kind(find_text(reader.png, reader.info, kKindKeyword));
  return image;
}

}  // namespace troupe::actors

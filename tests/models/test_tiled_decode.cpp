#include <tuple>

#include "kernels/core/noise.h"
#include "kernels/linear.h"
#include "models/description.h"
#include "models/vae/tiled_decode.h"
#include "tests/models/helpers.h"
#include "tests/models/loading.h"

namespace troupe::models {
namespace {

namespace fs = std::filesystem;

/// A decoder of two levels whose tiles are 8 latents, with what diffusers made
/// of latents of 15 × 22 in them.
fs::path golden_folder() { return fs::path(TROUPE_GOLDEN_DIR) / "vae_tiled"; }

Tensor golden_tensor(const char* name) {
  const SafetensorsFile golden(golden_folder() / "golden.safetensors");
  return golden.read(*golden.find(name));
}

Tensor picture_for(const AutoencoderKl& decoder, const Tensor& latents) {
  const std::int64_t scale = decoder.config().scale();
  return {Shape{decoder.config().out_channels, scale * latents.dim(1),
                scale * latents.dim(2)},
          DType::f32};
}

Tensor decode_tiled(const Tensor& latents, std::int64_t side, DType compute,
                    int threads) {
  ExecContext ctx(threads);
  const auto decoder =
      load_autoencoder(ctx, open_component(golden_folder()), compute);
  Tensor out = picture_for(*decoder, latents);
  decode_in_tiles(ctx, *decoder, latents, side, out);
  return out;
}

Tensor noise(const Shape& shape) {
  Tensor latents(shape, DType::f32);
  fill_normal({}, latents);
  return latents;
}

TEST(TiledDecode, DrawsThePictureOfDiffusers) {
  const Tensor picture =
      decode_tiled(golden_tensor("tiled_latents"), 8, DType::f32, 1);
  const double error = relative_error(picture, golden_tensor("tiled_picture"));
  RecordProperty("relative_l2", std::to_string(error * 1e6) + "e-6");
  EXPECT_LE(error, 2e-5);
}

/// Every tile of a picture, decoded and kept: what diffusers does, in doubles.
class PlainTiles {
 public:
  PlainTiles(ExecContext& ctx, const AutoencoderKl& decoder,
             const Tensor& latents, std::int64_t side)
      : side_(side), scale_(decoder.config().scale()) {
    for (std::int64_t y = 0; y < latents.dim(1); y += stride()) {
      auto& row = tiles_.emplace_back();
      for (std::int64_t x = 0; x < latents.dim(2); x += stride()) {
        row.push_back(decoded(ctx, decoder, latents, y, x));
      }
    }
    for (std::size_t i = 0; i < tiles_.size(); ++i) {
      for (std::size_t j = 0; j < tiles_[i].size(); ++j) {
        blend_down(i, j);
        blend_right(i, j);
      }
    }
  }

  /// One pixel of the picture.
  [[nodiscard]] double at(std::int64_t c, std::int64_t y,
                          std::int64_t x) const {
    const std::int64_t step = stride() * scale_;
    return tiles_[static_cast<std::size_t>(y / step)]
                 [static_cast<std::size_t>(x / step)]
                     .at(c, y % step, x % step);
  }

 private:
  struct Tile {
    std::int64_t height = 0;
    std::int64_t width = 0;
    std::vector<double> values;

    double& at(std::int64_t c, std::int64_t y, std::int64_t x) {
      return values[static_cast<std::size_t>((c * height + y) * width + x)];
    }
    [[nodiscard]] double at(std::int64_t c, std::int64_t y,
                            std::int64_t x) const {
      return values[static_cast<std::size_t>((c * height + y) * width + x)];
    }
  };

  [[nodiscard]] std::int64_t stride() const {
    return static_cast<std::int64_t>(static_cast<double>(side_) * 0.75);
  }
  Tile decoded(ExecContext& ctx, const AutoencoderKl& decoder,
               const Tensor& latents, std::int64_t y, std::int64_t x) const {
    const std::int64_t height = std::min(side_, latents.dim(1) - y);
    const std::int64_t width = std::min(side_, latents.dim(2) - x);
    Tensor part({latents.dim(0), height, width}, DType::f32);
    std::int64_t next = 0;
    for (std::int64_t c = 0; c < latents.dim(0); ++c) {
      for (std::int64_t i = 0; i < height; ++i) {
        for (std::int64_t j = 0; j < width; ++j) {
          part.data<float>()[next++] = latents.data<
              float>()[(c * latents.dim(1) + y + i) * latents.dim(2) + x + j];
        }
      }
    }
    Tensor out = picture_for(decoder, part);
    decoder.decode(ctx, part, out);
    const auto values = out.span<float>();
    return {out.dim(1), out.dim(2), {values.begin(), values.end()}};
  }
  [[nodiscard]] std::int64_t shared(std::int64_t a, std::int64_t b) const {
    return std::min({a, b, (side_ - stride()) * scale_});
  }
  void blend_down(std::size_t i, std::size_t j) {
    if (i == 0) {
      return;
    }
    const Tile& above = tiles_[i - 1][j];
    Tile& tile = tiles_[i][j];
    const std::int64_t n = shared(above.height, tile.height);
    for (std::int64_t c = 0; c < 3; ++c) {
      for (std::int64_t y = 0; y < n; ++y) {
        for (std::int64_t x = 0; x < tile.width; ++x) {
          const double t = static_cast<double>(y) / static_cast<double>(n);
          tile.at(c, y, x) = above.at(c, above.height - n + y, x) * (1 - t) +
                             tile.at(c, y, x) * t;
        }
      }
    }
  }
  void blend_right(std::size_t i, std::size_t j) {
    if (j == 0) {
      return;
    }
    const Tile& left = tiles_[i][j - 1];
    Tile& tile = tiles_[i][j];
    const std::int64_t n = shared(left.width, tile.width);
    for (std::int64_t c = 0; c < 3; ++c) {
      for (std::int64_t y = 0; y < tile.height; ++y) {
        for (std::int64_t x = 0; x < n; ++x) {
          const double t = static_cast<double>(x) / static_cast<double>(n);
          tile.at(c, y, x) = left.at(c, y, left.width - n + x) * (1 - t) +
                             tile.at(c, y, x) * t;
        }
      }
    }
  }

  std::int64_t side_;
  std::int64_t scale_;
  std::vector<std::vector<Tile>> tiles_;
};

TEST(TiledDecode, BlendsTilesAsTheFormulaSays) {
  ExecContext ctx;
  const auto decoder =
      load_autoencoder(ctx, open_component(golden_folder()), DType::f32);
  // Also tiles of which no quarter overlaps, and last ones of a single latent.
  for (const auto& [side, height, width] :
       {std::tuple{8, 13, 19}, std::tuple{8, 5, 9}, std::tuple{8, 26, 8},
        std::tuple{6, 9, 13}, std::tuple{4, 10, 7}, std::tuple{3, 7, 4},
        std::tuple{2, 3, 4}}) {
    const Tensor latents = noise({3, height, width});
    Tensor picture = picture_for(*decoder, latents);
    decode_in_tiles(ctx, *decoder, latents, side, picture);
    const PlainTiles want(ctx, *decoder, latents, side);
    Tensor plain(picture.shape(), DType::f32);
    float* next = plain.data<float>();
    for (std::int64_t c = 0; c < 3; ++c) {
      for (std::int64_t y = 0; y < picture.dim(1); ++y) {
        for (std::int64_t x = 0; x < picture.dim(2); ++x) {
          *next++ = static_cast<float>(want.at(c, y, x));
        }
      }
    }
    EXPECT_LE(relative_error(picture, plain), 1e-6)
        << side << ", " << height << " by " << width;
  }
}

TEST(TiledDecode, LeavesWhatIsNoLargerThanATile) {
  ExecContext ctx;
  const auto decoder =
      load_autoencoder(ctx, open_component(golden_folder()), DType::f32);
  const Tensor latents = noise({3, 8, 7});
  Tensor whole = picture_for(*decoder, latents);
  decoder->decode(ctx, latents, whole);
  EXPECT_TRUE(bytes_equal(decode_tiled(latents, 8, DType::f32, 1), whole));
  EXPECT_FALSE(bytes_equal(decode_tiled(latents, 4, DType::f32, 1), whole));
}

class TiledVaeBits : public testing::TestWithParam<DType> {};

TEST_P(TiledVaeBits, DoNotDependOnThreads) {
  const DType compute = GetParam();
  if (!kernels::supports(compute)) {
    GTEST_SKIP() << "no " << to_string(compute) << " on this processor";
  }
  const Tensor latents = golden_tensor("tiled_latents");
  const Tensor alone = decode_tiled(latents, 8, compute, 1);
  EXPECT_LE(relative_error(alone, golden_tensor("tiled_picture")), 0.05);
  for (const int threads : {1, 2, 3, 5}) {
    EXPECT_TRUE(bytes_equal(decode_tiled(latents, 8, compute, threads), alone))
        << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TiledVaeBits,
                         testing::Values(DType::f32, DType::bf16),
                         [](const auto& item) {
                           return std::string(to_string(item.param));
                         });

TEST(TiledDecode, RefusesWrongOperands) {
  ExecContext ctx;
  const auto decoder =
      load_autoencoder(ctx, open_component(golden_folder()), DType::f32);
  const Tensor latents = noise({3, 12, 12});
  Tensor small({3, 24, 22}, DType::f32);
  EXPECT_EQ(error_of([&] {
              decode_in_tiles(ctx, *decoder, latents, 8, small);
            }).code(),
            Errc::shape_mismatch);
  Tensor picture = picture_for(*decoder, latents);
  EXPECT_EQ(error_of([&] {
              decode_in_tiles(ctx, *decoder, latents, 1, picture);
            }).code(),
            Errc::invalid_argument);
}

TEST(TiledDecode, TakesTheMemoryThatWasForecast) {
  AutoencoderKlConfig config;
  config.block_out_channels = {32, 64};
  ExecContext ctx;
  RandomWeights weights(ctx, 3);
  const AutoencoderKl decoder(ctx, config, DType::f32, weights);
  Tensor picture({3, 160, 128}, DType::f32);
  decode_in_tiles(ctx, decoder, noise({4, 80, 64}), 16, picture);
  const auto tiled = [&](std::int64_t height, std::int64_t width) {
    return tiled_costs(config, DType::f32, {4, height, width}, 16).bytes;
  };
  const auto whole = [&](std::int64_t side) {
    return autoencoder_kl_costs(config, DType::f32, side, side).bytes;
  };
  EXPECT_LE(ctx.workspace().peak_bytes(), whole(16));
  // A tile, and of four times the latents no more than picture and edges.
  EXPECT_GT(tiled(64, 64), whole(16));
  EXPECT_LT(tiled(128, 128) - tiled(64, 64), 3 * 128 * 128 * 3 * 4 * 1.5);
  EXPECT_LT(tiled(128, 128), whole(128) / 10);
}

TEST(TiledDecode, CountsItsArithmetic) {
  AutoencoderKlConfig config;
  const auto of = [&](std::int64_t height, std::int64_t width) {
    return autoencoder_kl_costs(config, DType::f32, height, width).flops;
  };
  // Tiles begin at 0, 6 and 12: of 8, 7 and 1 rows, and of 8 and 4 columns.
  EXPECT_DOUBLE_EQ(
      tiled_costs(config, DType::f32, {4, 13, 10}, 8).flops,
      of(8, 8) + of(8, 4) + of(7, 8) + of(7, 4) + of(1, 8) + of(1, 4));
}

TEST(TiledDecode, HasTheTilesOfWhatTheDecoderWasTrainedWith) {
  const auto side = [](const char* text) {
    const Json config = Json::parse(text, "file");
    return decoder_table()[0]->describe(config)->tile_side();
  };
  EXPECT_EQ(side("{}"), 32) << "the class's default";
  EXPECT_EQ(side(R"({"sample_size":512,"block_out_channels":[32,32,32,32]})"),
            64);
  EXPECT_EQ(side(R"({"sample_size":[96,64],"block_out_channels":[32,32]})"),
            48);
  EXPECT_EQ(side(R"({"sample_size":3,"block_out_channels":[32,32]})"), 0);
  EXPECT_EQ(error_of([&] { (void)side(R"({"sample_size":0})"); }).code(),
            Errc::corrupt_file);
}

TEST(TiledDecode, LeavesTheHashOfWeights) {
  ExecContext ctx;
  const Component vae = open_component(golden_folder());
  const auto hash_of = [&](const AutoencoderKlConfig& config) {
    FileWeights weights(ctx, vae.weights);
    return autoencoder_kl_weights_hash(ctx, config, weights);
  };
  AutoencoderKlConfig config = parse_autoencoder_kl_config(vae.config);
  const std::uint64_t before = hash_of(config);
  config.sample_size *= 2;
  EXPECT_EQ(hash_of(config), before);
}

}  // namespace
}  // namespace troupe::models

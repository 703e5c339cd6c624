#include "kernels/core/error.h"
#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "kernels/row_blocks.h"
#include "tests/kernels/reference.h"

namespace troupe::kernels {
namespace {

constexpr std::int64_t kWidths[] = {1, 2, 15, 16, 17, 63, 64, 65, 192, 1153};

TEST(LayerNormModulate, MatchesADoubleReference) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t width : kWidths) {
      for (const std::int64_t rows : {0, 1, 19}) {
        ExecContext ctx(2);
        const std::int64_t shift = 3;
        const std::int64_t scale = 3 + width;
        const Tensor x = random_tensor({2, rows, width}, DType::f32, 1, 3);
        const Tensor modulation =
            random_tensor({2, 2 * width + 5}, DType::f32, 2);
        Guarded out({2, rows, width}, dtype, 1);
        layer_norm_modulate(ctx, x, modulation, shift, scale, 1e-3F,
                            out.tensor);
        EXPECT_TRUE(out.intact());
        std::vector<double> expected;
        for (std::int64_t r = 0; r < 2 * rows; ++r) {
          double mean = 0;
          double variance = 0;
          for (std::int64_t c = 0; c < width; ++c) {
            mean += value_at(x, r * width + c) / static_cast<double>(width);
          }
          for (std::int64_t c = 0; c < width; ++c) {
            const double d = value_at(x, r * width + c) - mean;
            variance += d * d / static_cast<double>(width);
          }
          for (std::int64_t c = 0; c < width; ++c) {
            const std::int64_t item = r / rows * (2 * width + 5);
            const double normal = (value_at(x, r * width + c) - mean) /
                                  std::sqrt(variance + double{1e-3F});
            expected.push_back(
                normal * (1 + value_at(modulation, item + scale + c)) +
                value_at(modulation, item + shift + c));
          }
        }
        expect_near(out.tensor, expected,
                    dtype == DType::bf16 ? unit_of(dtype) : 1e-6, 4e-6);
      }
    }
  }
}

TEST(LayerNormModulate, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  const Tensor x({2, 3, 4}, DType::f32);
  Tensor out({2, 3, 4}, DType::f32);
  const Tensor modulation({2, 8}, DType::f32);
  EXPECT_THROW(layer_norm_modulate(ctx, x, modulation, 0, 5, 0, out), Error);
  EXPECT_THROW(layer_norm_modulate(ctx, x, modulation, -1, 4, 0, out), Error);
  EXPECT_THROW(
      layer_norm_modulate(ctx, x, Tensor({3, 8}, DType::f32), 0, 4, 0, out),
      Error);
  EXPECT_THROW(layer_norm_modulate(ctx, Tensor({2, 3, 4}, DType::bf16),
                                   modulation, 0, 4, 0, out),
               Error);
}

TEST(LayerNorm, MatchesADoubleReferenceAndMayAlias) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t width : kWidths) {
      ExecContext ctx(2);
      Tensor x = random_tensor({3, 7, width}, DType::f32, 1, 3);
      const Tensor weight = random_tensor({width}, DType::f32, 2);
      const Tensor bias = random_tensor({width}, DType::f32, 3);
      Guarded out(x.shape(), dtype, 1);
      layer_norm(ctx, x, weight, bias, 1e-5F, out.tensor);
      EXPECT_TRUE(out.intact());
      std::vector<double> expected;
      for (std::int64_t r = 0; r < 21; ++r) {
        double mean = 0;
        double variance = 0;
        for (std::int64_t c = 0; c < width; ++c) {
          mean += value_at(x, r * width + c) / static_cast<double>(width);
        }
        for (std::int64_t c = 0; c < width; ++c) {
          const double d = value_at(x, r * width + c) - mean;
          variance += d * d / static_cast<double>(width);
        }
        for (std::int64_t c = 0; c < width; ++c) {
          const double normal = (value_at(x, r * width + c) - mean) /
                                std::sqrt(variance + double{1e-5F});
          expected.push_back(normal * value_at(weight, c) + value_at(bias, c));
        }
      }
      expect_near(out.tensor, expected,
                  dtype == DType::bf16 ? unit_of(dtype) : 1e-6, 4e-6);
      if (dtype == DType::f32) {
        layer_norm(ctx, x, weight, bias, 1e-5F, x);
        EXPECT_TRUE(bytes_equal(x, out.tensor));
      }
    }
  }
}

TEST(LayerNorm, HasTheBytesOfAModulationByTheSameNumbers) {
  ExecContext ctx;
  const Tensor x = random_tensor({1, 5, 77}, DType::f32, 1, 3);
  Tensor modulation = random_tensor({1, 2 * 77}, DType::f32, 2);
  Tensor weight({77}, DType::f32);
  Tensor bias({77}, DType::f32);
  for (std::int64_t c = 0; c < 77; ++c) {
    // Multiples of 1/64, so that 1 + scale is exact.
    const double scale = static_cast<double>(c - 40) / 64;
    set_value(modulation, 77 + c, scale);
    set_value(weight, c, 1 + scale);
    set_value(bias, c, value_at(modulation, c));
  }
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Tensor expected(x.shape(), dtype);
    layer_norm_modulate(ctx, x, modulation, 0, 77, 1e-6F, expected);
    Tensor out(x.shape(), dtype);
    layer_norm(ctx, x, weight, bias, 1e-6F, out);
    EXPECT_TRUE(bytes_equal(out, expected));
  }
}

TEST(LayerNorm, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  const Tensor x({2, 4}, DType::f32);
  const Tensor four({4}, DType::f32);
  Tensor out({2, 4}, DType::f32);
  const Tensor three({3}, DType::f32);
  EXPECT_THROW(layer_norm(ctx, x, three, four, 0, out), Error);
  EXPECT_THROW(layer_norm(ctx, x, four, three, 0, out), Error);
  EXPECT_THROW(layer_norm(ctx, x, four, Tensor(), 0, out), Error);
  EXPECT_THROW(layer_norm(ctx, Tensor({2, 4}, DType::bf16), four, four, 0, out),
               Error);
  Tensor wrong({4, 2}, DType::f32);
  EXPECT_THROW(layer_norm(ctx, x, four, four, 0, wrong), Error);
  Tensor integers({2, 4}, DType::i64);
  EXPECT_THROW(layer_norm(ctx, x, four, four, 0, integers), Error);
}

TEST(AddLayerNormModulate, HasTheBitsOfTheTwoOps) {
  for (const DType y_type : {DType::f32, DType::bf16}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const std::int64_t width : kWidths) {
        ExecContext ctx(2);
        Tensor x = random_tensor({2, 9, width}, DType::f32, 1, 3);
        const Tensor y = random_tensor({2, 9, width}, y_type, 2);
        const Tensor modulation =
            random_tensor({2, 3 * width + 1}, DType::f32, 3);
        Tensor sum = x.clone();
        add_gated(ctx, modulation, 1, y, sum);
        Tensor expected({2, 9, width}, dtype);
        layer_norm_modulate(ctx, sum, modulation, width, 2 * width, 1e-6F,
                            expected);
        Guarded out({2, 9, width}, dtype, 1);
        add_layer_norm_modulate(ctx, modulation, 1, y, width, 2 * width, 1e-6F,
                                x, out.tensor);
        EXPECT_TRUE(out.intact());
        EXPECT_TRUE(bytes_equal(x, sum));
        EXPECT_TRUE(bytes_equal(out.tensor, expected));
      }
    }
  }
}

TEST(AddLayerNormModulate, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  Tensor x({2, 3, 4}, DType::f32);
  Tensor out({2, 3, 4}, DType::f32);
  const Tensor modulation({2, 12}, DType::f32);
  const auto call = [&](const Tensor& y, std::int64_t gate,
                        std::int64_t shift) {
    add_layer_norm_modulate(ctx, modulation, gate, y, shift, 8, 0, x, out);
  };
  EXPECT_THROW(call(x.clone(), 9, 4), Error);
  EXPECT_THROW(call(x.clone(), 0, -1), Error);
  EXPECT_THROW(call(Tensor({2, 3, 5}, DType::f32), 0, 4), Error);
  EXPECT_THROW(call(Tensor({2, 3, 4}, DType::i64), 0, 4), Error);
}

TEST(RmsNorm, MatchesADoubleReferenceAndMayAlias) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t width : kWidths) {
      ExecContext ctx(2);
      Tensor x = random_tensor({3, 7, width}, dtype, 1, 3);
      const Tensor weight = random_tensor({width}, DType::f32, 2);
      Guarded out({3, 7, width}, dtype, 1);
      rms_norm(ctx, x, weight, 1e-5F, out.tensor);
      EXPECT_TRUE(out.intact());
      std::vector<double> expected;
      for (std::int64_t r = 0; r < 21; ++r) {
        double squares = 0;
        for (std::int64_t c = 0; c < width; ++c) {
          squares += value_at(x, r * width + c) * value_at(x, r * width + c);
        }
        for (std::int64_t c = 0; c < width; ++c) {
          expected.push_back(
              value_at(x, r * width + c) * value_at(weight, c) /
              std::sqrt(squares / static_cast<double>(width) + double{1e-5F}));
        }
      }
      expect_near(out.tensor, expected,
                  dtype == DType::bf16 ? unit_of(dtype) : 2e-6, 1e-9);
      rms_norm(ctx, x, weight, 1e-5F, x);
      EXPECT_TRUE(bytes_equal(x, out.tensor));
    }
  }
}

TEST(RmsNorm, WritesAnotherTypeThanItReads) {
  for (const DType from : {DType::f32, DType::bf16}) {
    const DType to = from == DType::f32 ? DType::bf16 : DType::f32;
    for (const std::int64_t width : kWidths) {
      ExecContext ctx(2);
      const Tensor x = random_tensor({3, 7, width}, from, 1, 3);
      const Tensor weight = random_tensor({width}, DType::f32, 2);
      Tensor wide({3, 7, width}, DType::f32);
      convert(ctx, x, wide);
      Tensor exact({3, 7, width}, DType::f32);
      rms_norm(ctx, wide, weight, 1e-6F, exact);
      Tensor expected({3, 7, width}, to);
      convert(ctx, exact, expected);
      Guarded out({3, 7, width}, to, 1);
      rms_norm(ctx, x, weight, 1e-6F, out.tensor);
      EXPECT_TRUE(out.intact());
      EXPECT_TRUE(bytes_equal(out.tensor, expected)) << width;
    }
  }
}

TEST(RmsNorm, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  Tensor out({2, 4}, DType::f32);
  Tensor integers({2, 4}, DType::i64);
  EXPECT_THROW(rms_norm(ctx, Tensor({2, 4}, DType::f32),
                        Tensor({4}, DType::f32), 0, integers),
               Error);
  EXPECT_THROW(rms_norm(ctx, Tensor({2, 4}, DType::f32),
                        Tensor({3}, DType::f32), 0, out),
               Error);
  EXPECT_THROW(rms_norm(ctx, Tensor({2, 4}, DType::f16),
                        Tensor({4}, DType::f32), 0, out),
               Error);
}

struct GroupCase {
  std::int64_t b, h, w, c, groups;
};

TEST(GroupNorm, MatchesADoubleReferenceAndMayAlias) {
  constexpr GroupCase kCases[] = {
      {0, 2, 2, 4, 2}, {1, 1, 1, 1, 1},    {2, 3, 5, 6, 3}, {1, 17, 31, 20, 4},
      {2, 4, 4, 7, 7}, {1, 16, 16, 33, 1}, {1, 1, 2, 4, 4}};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const GroupCase& g : kCases) {
      for (const Activation activation : {Activation::none, Activation::silu}) {
        ExecContext ctx(2);
        Tensor x = random_tensor({g.b, g.h, g.w, g.c}, dtype, 1, 3);
        const Tensor weight = random_tensor({g.c}, DType::f32, 2);
        const Tensor bias = random_tensor({g.c}, DType::f32, 3);
        Guarded out(x.shape(), dtype, 1);
        group_norm(ctx, x, weight, bias, g.groups, 1e-4F, activation,
                   out.tensor);
        EXPECT_TRUE(out.intact());
        const std::int64_t pixels = g.h * g.w;
        const std::int64_t width = g.c / g.groups;
        const auto count = static_cast<double>(pixels * width);
        std::vector<double> expected(
            static_cast<std::size_t>(x.num_elements()));
        for (std::int64_t b = 0; b < g.b; ++b) {
          for (std::int64_t group = 0; group < g.groups; ++group) {
            const auto index = [&](std::int64_t p, std::int64_t c) {
              return (b * pixels + p) * g.c + group * width + c;
            };
            double mean = 0;
            double variance = 0;
            for (std::int64_t p = 0; p < pixels; ++p) {
              for (std::int64_t c = 0; c < width; ++c) {
                mean += value_at(x, index(p, c)) / count;
              }
            }
            for (std::int64_t p = 0; p < pixels; ++p) {
              for (std::int64_t c = 0; c < width; ++c) {
                const double d = value_at(x, index(p, c)) - mean;
                variance += d * d / count;
              }
            }
            for (std::int64_t p = 0; p < pixels; ++p) {
              for (std::int64_t c = 0; c < width; ++c) {
                const double normal = (value_at(x, index(p, c)) - mean) /
                                      std::sqrt(variance + double{1e-4F});
                expected[static_cast<std::size_t>(index(p, c))] = apply(
                    activation, normal * value_at(weight, group * width + c) +
                                    value_at(bias, group * width + c));
              }
            }
          }
        }
        expect_near(out.tensor, expected,
                    dtype == DType::bf16 ? unit_of(dtype) : 1e-6, 4e-6);
        group_norm(ctx, x, weight, bias, g.groups, 1e-4F, activation, x);
        EXPECT_TRUE(bytes_equal(x, out.tensor));
      }
    }
  }
}

TEST(GroupNorm, HalvesHaveTheBytesOfTheWhole) {
  constexpr std::int64_t kWidth = 24;
  constexpr std::int64_t kGroups = 3;
  const Tensor weight = random_tensor({kWidth}, DType::f32, 2);
  const Tensor bias = random_tensor({kWidth}, DType::f32, 3);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    // Of the last one a block has 128 pixels.
    for (const std::int64_t pixels : {1, 63, 64, 65, 500, 64 * 512 + 70}) {
      ExecContext ctx(2);
      const Tensor x = random_tensor({pixels, kWidth}, dtype, 1, 3);
      Tensor want({1, 1, pixels, kWidth}, dtype);
      group_norm(ctx, x.reshape(want.shape()), weight, bias, kGroups, 1e-4F,
                 Activation::silu, want);
      const std::int64_t block = shard_block(pixels);
      const std::int64_t blocks = (pixels + block - 1) / block;
      Tensor moments({blocks, group_moments_width(ctx, pixels, kGroups)},
                     DType::u8);
      for (std::int64_t cut = 0; cut <= blocks; cut += blocks / 16 + 1) {
        const std::int64_t at = std::min(cut * block, pixels);
        Tensor first = moments.slice(0, cut);
        Tensor last = moments.slice(cut, blocks);
        group_moments(ctx, x.slice(0, at), pixels, kGroups, first);
        group_moments(ctx, x.slice(at, pixels), pixels, kGroups, last);
        // Any pixels can be normalised, not only those from a block on.
        const std::int64_t part = at / 3;
        Tensor got({pixels, kWidth}, dtype);
        const auto normalise = [&](std::int64_t begin, std::int64_t end) {
          Tensor rows = got.slice(begin, end);
          group_normalise(ctx, x.slice(begin, end), moments, pixels, weight,
                          bias, kGroups, 1e-4F, Activation::silu, rows);
        };
        normalise(0, part);
        normalise(part, pixels);
        EXPECT_TRUE(bytes_equal(got.reshape(want.shape()), want))
            << pixels << ", cut at " << at;
      }
    }
  }
}

TEST(GroupNorm, RefusesWhatDoesNotFit) {
  ExecContext ctx;
  const Tensor x({1, 2, 2, 6}, DType::f32);
  const Tensor six({6}, DType::f32);
  Tensor out({1, 2, 2, 6}, DType::f32);
  for (const std::int64_t groups : {0, 4, -2}) {
    EXPECT_THROW(group_norm(ctx, x, six, six, groups, 0, Activation::none, out),
                 Error);
  }
  EXPECT_THROW(group_norm(ctx, x, Tensor({5}, DType::f32), six, 2, 0,
                          Activation::none, out),
               Error);
}

}  // namespace
}  // namespace troupe::kernels

// What a caller of a text encoder relies on.

#include <cmath>
#include <tuple>
#include <utility>

#include "kernels/linear.h"
#include "tests/models/helpers.h"
#include "tests/models/text/encoder_cases.h"

namespace troupe::models {
namespace {

constexpr const char* kClipJson = R"({"vocab_size": 64, "hidden_size": 96,
  "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 3,
  "max_position_embeddings": 200, "eos_token_id": 63, "projection_dim": 40})";
constexpr const char* kT5Json = R"({"vocab_size": 64, "d_model": 96,
  "d_kv": 24, "d_ff": 160, "num_layers": 3, "num_heads": 5,
  "feed_forward_proj": "gated-gelu"})";

std::unique_ptr<TextEncoderDescription> described(std::string_view class_name,
                                                  const char* json) {
  const Json config = Json::parse(json, "config.json");
  return find_text_encoder(config, class_name).describe(config);
}

struct RandomCase {
  const char* class_name;
  const char* json;
  DType compute;
};

class TextEncoderBits : public testing::TestWithParam<RandomCase> {
 protected:
  void SetUp() override {
    if (!kernels::supports(GetParam().compute)) {
      GTEST_SKIP() << "no bf16 on this CPU";
    }
  }
  static std::unique_ptr<TextEncoder> load(ExecContext& ctx) {
    RandomWeights weights(ctx, 7);
    return described(GetParam().class_name, GetParam().json)
        ->load(ctx, GetParam().compute, weights);
  }
  static std::vector<std::int32_t> ids(int count) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      ids[static_cast<std::size_t>(i)] = 1 + 7 * i % 61;
    }
    return ids;
  }
};

TEST_P(TextEncoderBits, DoNotDependOnThreads) {
  ExecContext one(1);
  const auto encoder = load(one);
  for (const int count : {1, 77, 150}) {
    const EncoderCase text{ids(count), (count + 1) / 2, {}};
    const EncodedText alone = text.run(one, *encoder);
    for (const int threads : {2, 3}) {
      ExecContext many(threads);
      const EncodedText shared = text.run(many, *encoder);
      EXPECT_TRUE(bytes_equal(shared.hidden, alone.hidden)) << threads;
      EXPECT_TRUE(bytes_equal(shared.pooled, alone.pooled)) << threads;
    }
  }
}

TEST_P(TextEncoderBits, DoNotDependOnTextsBefore) {
  ExecContext ctx;
  const auto encoder = load(ctx);
  const EncoderCase text{ids(70), 70, {}};
  const Tensor first = text.run(ctx, *encoder).hidden;
  for (const int count : {150, 3, 149}) {
    (void)EncoderCase{ids(count), count, {}}.run(ctx, *encoder);
  }
  EXPECT_TRUE(bytes_equal(text.run(ctx, *encoder).hidden, first));
}

TEST_P(TextEncoderBits, DoNotDependOnWhatPadsTheText) {
  ExecContext ctx;
  const auto encoder = load(ctx);
  for (const std::int64_t length : {1, 63, 70, 101}) {
    EncoderCase text{ids(150), length, {}};
    const Tensor first = text.run(ctx, *encoder).hidden;
    std::fill(text.ids.begin() + length, text.ids.end(), 0);
    const Tensor padded = text.run(ctx, *encoder).hidden;
    EXPECT_TRUE(bytes_equal(padded.slice(0, length), first.slice(0, length)))
        << length;
    EXPECT_FALSE(bytes_equal(padded, first)) << length;
  }
}

TEST_P(TextEncoderBits, OfALayerAreThoseOfTheLastOneOfAShorterEncoder) {
  ExecContext ctx;
  std::string json = GetParam().json;
  for (const std::string key : {"num_hidden_layers\": ", "num_layers\": "}) {
    if (const auto at = json.find(key); at != std::string::npos) {
      json[at + key.size()] = '2';
    }
  }
  RandomWeights weights(ctx, 7);
  const auto shorter = described(GetParam().class_name, json.c_str())
                           ->load(ctx, GetParam().compute, weights);
  const auto whole = load(ctx);
  for (const bool norm : {true, false}) {
    const EncodedText skipped =
        EncoderCase{ids(20), 20, {1, norm}}.run(ctx, *whole);
    const EncodedText last =
        EncoderCase{ids(20), 20, {0, norm}}.run(ctx, *shorter);
    EXPECT_TRUE(bytes_equal(skipped.hidden, last.hidden)) << norm;
  }
  // A pooled vector is made of the last layer, whichever state is wanted.
  const Tensor pooled = EncoderCase{ids(20), 20, {}}.run(ctx, *whole).pooled;
  EXPECT_TRUE(bytes_equal(
      EncoderCase{ids(20), 20, {1, false}}.run(ctx, *whole).pooled, pooled));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, TextEncoderBits,
    testing::Values(RandomCase{"CLIPTextModel", kClipJson, DType::f32},
                    RandomCase{"CLIPTextModelWithProjection", kClipJson,
                               DType::bf16},
                    RandomCase{"T5EncoderModel", kT5Json, DType::f32},
                    RandomCase{"T5EncoderModel", kT5Json, DType::bf16}),
    [](const auto& item) {
      return std::string(item.param.class_name) + "_" +
             std::string(to_string(item.param.compute));
    });

/// Random weights with one NaN in the first tensor whose name has `where`.
class Poisoned final : public WeightSource {
 public:
  Poisoned(ExecContext& ctx, std::string where)
      : inner_(ctx, 7), where_(std::move(where)) {}
  [[nodiscard]] bool has(std::string_view name) const override {
    return inner_.has(name);
  }
  void check(std::span<const TensorSpec> specs) override {
    inner_.check(specs);
  }

 protected:
  [[nodiscard]] DType stored_dtype(std::string_view /*name*/) const override {
    return DType::f32;
  }
  void fill(const TensorSpec& spec, Tensor& out) override {
    const Tensor values = inner_.read_f32(spec);
    std::ranges::copy(values.span<float>(), out.data<float>());
    if (contains(spec.name, where_)) {
      out.data<float>()[0] = std::nanf("");
    }
  }

 private:
  RandomWeights inner_;
  std::string where_;
};

std::string first_broken(const char* class_name, const char* json,
                         const char* where) {
  ExecContext ctx;
  Poisoned weights(ctx, where);
  const auto encoder =
      described(class_name, json)->load(ctx, DType::f32, weights);
  const Error error = error_of([&] {
    (void)EncoderCase{{0, 5, 63}, 3, {}}.run(ctx, *encoder);
  });
  EXPECT_EQ(error.code(), Errc::non_finite);
  return error.message();
}

TEST(TextEncoder, NamesTheLayerThatMadeTheFirstNan) {
  const char* clip = "CLIPTextModelWithProjection";
  EXPECT_TRUE(contains(first_broken(clip, kClipJson, "token_embedding"),
                       "embeddings:"));
  EXPECT_TRUE(contains(first_broken(clip, kClipJson, "layers.1.mlp.fc2.bias"),
                       "layer 1:"));
  EXPECT_TRUE(
      contains(first_broken(clip, kClipJson, "final_layer"), "final norm:"));
  EXPECT_TRUE(contains(first_broken(clip, kClipJson, "text_projection"),
                       "pooled vector:"));
  const char* t5 = "T5EncoderModel";
  EXPECT_TRUE(contains(first_broken(t5, kT5Json, "shared"), "embeddings:"));
  EXPECT_TRUE(contains(first_broken(t5, kT5Json, "block.2.layer.1.DenseReluD"),
                       "layer 2:"));
  EXPECT_TRUE(
      contains(first_broken(t5, kT5Json, "final_layer"), "final norm:"));
}

TEST(TextEncoder, RefusesWhatDoesNotExist) {
  ExecContext ctx;
  for (const auto& [class_name, json, most] :
       {std::tuple{"CLIPTextModel", kClipJson, 200},
        std::tuple{"T5EncoderModel", kT5Json, 1024}}) {
    const auto description = described(class_name, json);
    EXPECT_EQ(description->max_tokens(), most);
    RandomWeights weights(ctx, 7);
    const auto encoder = description->load(ctx, DType::f32, weights);
    const auto too_many = static_cast<std::size_t>(most + 1);
    const EncoderCase wrong[] = {
        {{}, 0, {}},
        {std::vector<std::int32_t>(too_many, 1), 1, {}},
        {{1, 64}, 2, {}},
        {{1, -1}, 2, {}},
        {{1, 2}, 0, {}},
        {{1, 2}, 3, {}},
        {{1, 2}, 2, {-1, true}},
        {{1, 2}, 2, {4, true}},
    };
    for (const EncoderCase& one : wrong) {
      const Error error = error_of([&] { (void)one.run(ctx, *encoder); });
      EXPECT_EQ(error.code(), Errc::invalid_argument) << error.what();
    }
    const EncodedText all =
        EncoderCase{{1, 63}, 2, {3, true}}.run(ctx, *encoder);
    EXPECT_EQ(all.hidden.shape(), Shape({2, 96}));
  }
}

TEST(TextEncoder, RunsNoLayerThatNobodyWants) {
  ExecContext ctx;
  const auto layers = [&](const char* class_name, const char* json,
                          int skipped) {
    RandomWeights weights(ctx, 7);
    const auto encoder =
        described(class_name, json)->load(ctx, DType::f32, weights);
    const std::uint64_t before = ctx.ticks();
    (void)EncoderCase{{1, 2}, 2, {skipped, true}}.run(ctx, *encoder);
    return ctx.ticks() - before;
  };
  EXPECT_EQ(layers("T5EncoderModel", kT5Json, 0), 3U);
  EXPECT_EQ(layers("T5EncoderModel", kT5Json, 2), 1U);
  // The pooled vector needs the last layer.
  EXPECT_EQ(layers("CLIPTextModel", kClipJson, 2), 3U);
}

TEST(TextEncoder, StopsWhenAsked) {
  ExecContext ctx;
  RandomWeights weights(ctx, 7);
  const auto description = described("T5EncoderModel", kT5Json);
  const auto encoder = description->load(ctx, DType::f32, weights);
  ctx.request_stop();
  const auto code = [](const auto& call) { return error_of(call).code(); };
  EXPECT_EQ(code([&] {
              (void)EncoderCase{{1}, 1, {}}.run(ctx, *encoder);
            }),
            Errc::interrupted);
  EXPECT_EQ(code([&] { (void)description->load(ctx, DType::f32, weights); }),
            Errc::interrupted);
  EXPECT_EQ(code([&] { (void)description->weights_hash(ctx, weights); }),
            Errc::interrupted);
}

TEST(TextEncoder, HashCoversTheConfiguration) {
  ExecContext ctx;
  const auto hash = [&](const char* json) {
    RandomWeights weights(ctx, 7);
    return described("T5EncoderModel", json)->weights_hash(ctx, weights);
  };
  const char* other = R"({"vocab_size": 64, "d_model": 96, "d_kv": 24,
    "d_ff": 160, "num_layers": 3, "num_heads": 5,
    "feed_forward_proj": "gated-silu"})";
  EXPECT_EQ(hash(kT5Json), hash(kT5Json));
  EXPECT_NE(hash(kT5Json), hash(other));
}

TEST(TextEncoderConfig, RefusesWhatNoEncoderHas) {
  const auto code = [](const char* class_name, const char* json) {
    return error_of([&] { (void)described(class_name, json); }).code();
  };
  EXPECT_EQ(code("UMT5EncoderModel", "{}"), Errc::unsupported);
  EXPECT_EQ(code("CLIPTextModel", R"({"hidden_act": "laplace"})"),
            Errc::unsupported);
  EXPECT_EQ(code("CLIPTextModel", R"({"text_config": {}})"), Errc::unsupported);
  EXPECT_EQ(code("CLIPTextModel", R"({"hidden_size": 511})"),
            Errc::corrupt_file);
  EXPECT_EQ(code("CLIPTextModel", R"({"num_hidden_layers": 0})"),
            Errc::corrupt_file);
  EXPECT_EQ(code("CLIPTextModel", R"({"layer_norm_eps": -1})"),
            Errc::corrupt_file);
  EXPECT_EQ(code("T5EncoderModel", R"({"feed_forward_proj": "gated-x"})"),
            Errc::unsupported);
  EXPECT_EQ(code("T5EncoderModel", R"({"relative_attention_num_buckets": 2})"),
            Errc::corrupt_file);
  EXPECT_EQ(code("T5EncoderModel", R"({"relative_attention_max_distance": 8})"),
            Errc::corrupt_file);
  EXPECT_EQ(code("T5EncoderModel", R"({"layer_norm_epsilon": -1})"),
            Errc::corrupt_file);
}

// Keys of transformers 5; some are other names of older keys.
TEST(TextEncoderConfig, FollowsKeysThatChangeTheResult) {
  ExecContext ctx;
  const auto hash = [&](const char* class_name, const std::string& json) {
    RandomWeights weights(ctx, 7);
    return described(class_name, json.c_str())->weights_hash(ctx, weights);
  };
  const std::string small = R"({"vocab_size": 8, "d_ff": 16, )";
  const auto t5 = [&](const char* keys) {
    return hash("T5EncoderModel", small + keys + "}");
  };
  const auto expected = t5(R"("d_model": 32, "d_kv": 4, "num_layers": 2,
    "num_heads": 3, "feed_forward_proj": "gated-relu")");
  EXPECT_EQ(t5(R"("hidden_size": 32, "head_dim": 4, "num_hidden_layers": 2,
    "num_attention_heads": 3, "feed_forward_proj": "relu",
    "is_gated_act": true)"),
            expected);
  EXPECT_EQ(t5(R"("d_model": 64, "hidden_size": 32, "d_kv": 4, "num_layers": 2,
    "num_heads": 3, "feed_forward_proj": "gated-silu", "dense_act_fn": "relu",
    "is_decoder": false)"),
            expected);
  EXPECT_EQ(error_of([&] { (void)t5(R"("is_decoder": true)"); }).code(),
            Errc::unsupported);
  const auto clip = [&](const char* keys) {
    return error_of([&] { (void)described("CLIPTextModel", keys); }).code();
  };
  EXPECT_EQ(clip(R"({"is_causal": false})"), Errc::unsupported);
}

TEST(TextEncoderConfig, RefusesWeightsOfAnotherShape) {
  ExecContext ctx;
  const EncoderFolder folder(std::filesystem::path(TROUPE_GOLDEN_DIR) /
                             "text_t5");
  FileWeights weights(ctx, folder.files);
  const auto other = described("T5EncoderModel", R"({"vocab_size": 99,
    "d_model": 32, "d_kv": 8, "d_ff": 38, "num_layers": 3, "num_heads": 4,
    "relative_attention_num_buckets": 8, "feed_forward_proj": "gated-gelu"})");
  const Error error =
      error_of([&] { (void)other->load(ctx, DType::f32, weights); });
  EXPECT_EQ(error.code(), Errc::corrupt_file);
  EXPECT_TRUE(contains(error.what(), "wi_1.weight")) << error.what();
}

// Parameters and operations as counted from the shapes of published models.
TEST(TextEncoderDescription, KnowsPublishedModels) {
  const auto clip_l = described("CLIPTextModel", R"({"hidden_size": 768,
    "intermediate_size": 3072, "num_attention_heads": 12})");
  EXPECT_EQ(clip_l->width(), 768);
  EXPECT_EQ(clip_l->pooled_width(), 768);
  EXPECT_EQ(clip_l->max_tokens(), 77);
  const TextEncoderCosts of_clip_l =
      clip_l->costs(77, DType::f32, DeviceKind::cpu);
  EXPECT_NEAR(static_cast<double>(of_clip_l.weights_bytes), 4.0 * 123.06e6,
              4.0 * 0.01e6);
  EXPECT_NEAR(of_clip_l.flops, 0.0134e12, 0.0002e12);
  const auto big = described("CLIPTextModelWithProjection",
                             R"({"hidden_size": 1280,
    "intermediate_size": 5120, "num_hidden_layers": 32,
    "num_attention_heads": 20, "hidden_act": "gelu", "projection_dim": 1280})");
  EXPECT_EQ(big->pooled_width(), 1280);
  EXPECT_NEAR(static_cast<double>(
                  big->costs(77, DType::f32, DeviceKind::cpu).weights_bytes),
              4.0 * 694.66e6, 4.0 * 0.01e6);
  const auto xxl = described("T5EncoderModel", R"({"d_model": 4096,
    "d_ff": 10240, "num_layers": 24, "num_heads": 64,
    "feed_forward_proj": "gated-gelu"})");
  EXPECT_EQ(xxl->pooled_width(), 0);
  EXPECT_EQ(xxl->vocab_size(), 32128);
  const TextEncoderCosts in_f32 = xxl->costs(300, DType::f32, DeviceKind::cpu);
  EXPECT_NEAR(static_cast<double>(in_f32.weights_bytes), 4.0 * 4762.3e6,
              4.0 * 0.1e6);
  EXPECT_NEAR(static_cast<double>(
                  xxl->costs(300, DType::bf16, DeviceKind::cpu).weights_bytes),
              2.0 * 4762.3e6 + 2.0 * 32128 * 4096, 2e6);
  EXPECT_NEAR(in_f32.flops, 2.81e12, 0.01e12);
}

struct CostCase {
  std::int64_t vocab, width, inner, mlp, layers, heads;
  bool gated = false;                         // T5
  std::int64_t positions = 0, projected = 0;  // CLIP

  [[nodiscard]] std::unique_ptr<TextEncoderDescription> describe() const {
    const auto key = [](const char* name, std::int64_t value) {
      return "\"" + std::string(name) + "\": " + std::to_string(value) + ", ";
    };
    if (positions == 0) {
      return described("T5EncoderModel",
                       ("{" + key("vocab_size", vocab) + key("d_model", width) +
                        key("d_kv", inner / heads) + key("d_ff", mlp) +
                        key("num_layers", layers) + key("num_heads", heads) +
                        R"("feed_forward_proj": ")" +
                        (gated ? "gated-gelu" : "relu") + "\"}")
                           .c_str());
    }
    return described(
        projected > 0 ? "CLIPTextModelWithProjection" : "CLIPTextModel",
        ("{" + key("vocab_size", vocab) + key("hidden_size", width) +
         key("intermediate_size", mlp) + key("num_hidden_layers", layers) +
         key("num_attention_heads", heads) +
         key("max_position_embeddings", positions) +
         key("projection_dim", projected) + R"("hidden_act": "gelu"})")
            .c_str());
  }
  /// Multiplications of one token in the matrices of one layer.
  [[nodiscard]] std::int64_t products() const {
    return 4 * width * inner + (gated ? 3 : 2) * width * mlp;
  }
  [[nodiscard]] std::int64_t flops(std::int64_t tokens) const {
    return layers * (2 * tokens * products() + 4 * tokens * tokens * inner) +
           2 * width * projected;
  }
  [[nodiscard]] std::int64_t table_bytes() const {
    return 4 * (vocab + positions) * width;
  }
  [[nodiscard]] std::int64_t weights_bytes(std::int64_t element) const {
    const bool is_t5 = positions == 0;
    const std::int64_t layer_vectors =
        is_t5 ? 2 * width : 4 * width + 3 * inner + width + mlp + width;
    return table_bytes() + (is_t5 ? 4 * 32 * heads : 0) +
           layers * (element * products() + 4 * layer_vectors) +
           4 * (is_t5 ? 1 : 2) * width + element * projected * width;
  }
  [[nodiscard]] std::int64_t pass_bytes(std::int64_t tokens,
                                        std::int64_t element) const {
    if (positions > 0) {
      // x, the wanted state and its copy on the host; normed, qkv, the MLP.
      return tokens * (width * (12 + 4 * element) + mlp * element);
    }
    // x and its copy on the host; normed, qkv, attended, the MLP; and the bias
    // of all pairs, which is kept.
    return tokens * (width * (8 + element) + 4 * inner * element +
                     (gated ? 3 : 1) * mlp * element) +
           heads * tokens * tokens * 4;
  }
  /// Of a GPU, in addition: it makes a product in f32 before it adds it to x or
  /// applies an activation. What lies in the same place afterwards: CLIP's
  /// wanted state, and the copy on the host.
  [[nodiscard]] std::int64_t products_apart(std::int64_t tokens) const {
    const std::int64_t product = gated ? width : mlp;
    const std::int64_t afterwards = (positions > 0 ? 2 : 1) * width;
    return 4 * tokens * std::max<std::int64_t>(0, product - afterwards);
  }
};

// Those that were counted by hand before encoders were metered.
TEST(TextEncoderDescription, CostsWhatItsShapesSay) {
  const CostCase cases[] = {
      {32128, 4096, 4096, 10240, 24, 64, true},            // T5-XXL
      {32128, 512, 384, 1024, 8, 6, true},                 // T5-small 1.1
      {32128, 768, 768, 3072, 12, 12},                     // T5-base
      {49408, 768, 768, 3072, 12, 12, false, 77},          // CLIP L
      {49408, 1280, 1280, 5120, 32, 20, false, 77, 1280},  // CLIP bigG
      {1000, 96, 96, 160, 3, 3, false, 200, 40},
      {1000, 96, 120, 160, 3, 5, true},
  };
  for (const CostCase& one : cases) {
    const auto description = one.describe();
    for (const std::int64_t tokens : {1, 20, 77}) {
      for (const DType compute : {DType::f32, DType::bf16, DType::f16}) {
        SCOPED_TRACE(std::to_string(one.width) + " " + std::to_string(tokens) +
                     " " + std::string(to_string(compute)));
        const bool on_gpu = compute == DType::f16;
        const auto element = static_cast<std::int64_t>(size_of(compute));
        const TextEncoderCosts costs = description->costs(
            tokens, compute, on_gpu ? DeviceKind::cuda : DeviceKind::cpu);
        const auto expect_near = [](std::uint64_t got, std::int64_t expected,
                                    std::int64_t slack) {
          EXPECT_NEAR(static_cast<double>(got), static_cast<double>(expected),
                      0.05 * static_cast<double>(expected) +
                          static_cast<double>(slack));
        };
        EXPECT_EQ(costs.flops, static_cast<double>(one.flops(tokens)));
        expect_near(costs.weights_bytes, one.weights_bytes(element), 0);
        expect_near(costs.table_bytes, one.table_bytes(), 0);
        // Tensors begin at multiples of 256 bytes, and a row is pooled.
        expect_near(costs.pass_bytes,
                    one.pass_bytes(tokens, element) +
                        (on_gpu ? one.products_apart(tokens) : 0),
                    10 * 256 + 16 * one.width);
      }
    }
  }
}

// All but the residual stream and the result, which are small.
TEST(TextEncoderDescription, ForecastsThePass) {
  const char* clip = R"({"vocab_size": 64, "hidden_size": 768,
    "intermediate_size": 4096, "num_hidden_layers": 1,
    "num_attention_heads": 4, "max_position_embeddings": 300})";
  const char* t5 = R"({"vocab_size": 64, "d_model": 768, "d_kv": 192,
    "d_ff": 4096, "num_layers": 1, "num_heads": 4,
    "feed_forward_proj": "gated-gelu"})";
  for (const auto& [class_name, json] :
       {std::pair{"CLIPTextModel", clip}, std::pair{"T5EncoderModel", t5}}) {
    ExecContext ctx;
    RandomWeights weights(ctx, 7);
    const auto description = described(class_name, json);
    const auto encoder = description->load(ctx, DType::f32, weights);
    const std::vector<std::int32_t> ids(300, 3);
    (void)encoder->encode(ctx, ids, 300, {});
    const auto forecast = static_cast<double>(
        description->costs(300, DType::f32, DeviceKind::cpu).pass_bytes);
    const auto taken = static_cast<double>(ctx.workspace().capacity_bytes());
    EXPECT_LE(taken, forecast) << class_name;
    EXPECT_GE(taken, 0.7 * forecast) << class_name;
  }
}

}  // namespace
}  // namespace troupe::models

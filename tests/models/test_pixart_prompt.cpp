// The condition of PixArt: accepted and refused inputs.

#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "tests/models/helpers.h"
#include "tests/models/pixart_fixtures.h"

namespace troupe::models {
namespace {

Condition with(const std::string& name, Tensor tensor,
               std::int64_t length = -1) {
  Condition condition;
  condition.add(name, std::move(tensor), length);
  return condition;
}

/// The refusal of the description, which is also that of `prepare`.
Error refusal_of(const Condition& condition) {
  ExecContext ctx;
  static const auto pixart = small_pixart(ctx);
  const Error error = error_of(
      [&] { describe(small_pixart_config())->check_condition(condition); });
  EXPECT_STREQ(error_of([&] { (void)pixart->prepare(ctx, condition); }).what(),
               error.what());
  EXPECT_EQ(error.code(), Errc::invalid_argument);
  return error;
}

TEST(PixArtPrompt, RefusesWhatItCannotReadWithTheTensorsName) {
  const auto text = [](const Condition& condition) {
    return std::string(refusal_of(condition).what());
  };
  EXPECT_EQ(text(with("prompt_embeds", Tensor({7, 21}, DType::f32))),
            "[prompt_embeds] got shape [7, 21], expected [tokens, 20]");
  EXPECT_EQ(text(with("prompt_embeds", Tensor({1, 7, 20}, DType::f32))),
            "[prompt_embeds] got shape [1, 7, 20], expected [tokens, 20]");
  EXPECT_EQ(text(with("prompt_embeds", Tensor({20}, DType::f32))),
            "[prompt_embeds] got shape [20], expected [tokens, 20]");
  EXPECT_EQ(text(with("prompt_embeds", Tensor({7, 20}, DType::i64))),
            "[prompt_embeds] got i64, expected f32, bf16 or f16");
  EXPECT_EQ(text(with("prompt_embeds", Tensor({7, 20}, DType::f32), 0)),
            "[prompt_embeds] got 0 tokens without padding, expected 1 to 4096");
  EXPECT_EQ(text(with("prompt_embeds", Tensor({4097, 20}, DType::f32))),
            "[prompt_embeds] got 4097 tokens without padding, expected 1 to "
            "4096");
  EXPECT_EQ(text(Condition()),
            "[prompt_embeds] missing: the network is conditioned on it");
  EXPECT_EQ(text(Condition(3)),
            "[class_label] the network does not take it: expected "
            "prompt_embeds alone");
  Condition both = prompt(1, 3);
  both.add("pooled", Tensor({4}, DType::f32));
  EXPECT_EQ(refusal_of(both).place(), "pooled");
}

TEST(PixArtPrompt, TakesManyTokensOfPadding) {
  const Condition condition =
      with("prompt_embeds", Tensor({5000, 20}, DType::f32), 4096);
  EXPECT_NO_THROW(describe(small_pixart_config())->check_condition(condition));
  EXPECT_EQ(describe(small_pixart_config())->prompt_width(), 20);
}

TEST(PixArtPrompt, MayHaveAnyFloatingType) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    if (!kernels::supports(compute)) {
      continue;
    }
    ExecContext ctx;
    const auto pixart = small_pixart(ctx, {"", compute, 12});
    // Small whole numbers: the same in every type.
    Tensor f32({6, 20}, DType::f32);
    Tensor f16({6, 20}, DType::f16);
    for (std::int64_t i = 0; i < f32.num_elements(); ++i) {
      const std::int64_t value = i % 7 - 3;
      f32.data<float>()[i] = static_cast<float>(value);
      // Sign, exponent + 15, fraction: 1, 2 and 3 are 0x3c00, 0x4000, 0x4200.
      constexpr std::uint16_t kBits[] = {0, 0x3c00, 0x4000, 0x4200};
      const std::uint16_t bits = static_cast<std::uint16_t>(
          kBits[value < 0 ? -value : value] | (value < 0 ? 0x8000 : 0));
      std::memcpy(f16.bytes().data() + 2 * i, &bits, 2);
    }
    Tensor bf16({6, 20}, DType::bf16);
    kernels::convert(ctx, f32, bf16);
    const Tensor x = latents_of_row(0, {4, 10, 10});
    Rows rows;
    for (const Tensor& tensor : {f32, f16, bf16}) {
      rows.add(ctx, *pixart, x, 700.0, with("prompt_embeds", tensor));
    }
    const auto outputs = predict(ctx, *pixart, rows);
    EXPECT_TRUE(bytes_equal(outputs[1], outputs[0])) << to_string(compute);
    EXPECT_TRUE(bytes_equal(outputs[2], outputs[0])) << to_string(compute);
  }
}

TEST(PixArtPrompt, OfAnotherNetworkIsRefused) {
  ExecContext ctx;
  const auto pixart = small_pixart(ctx);
  const auto dit = small_dit(ctx);
  Rows rows;
  rows.add(ctx, *dit, latents_of_row(0, {4, 10, 10}), 500.0, 1);
  EXPECT_EQ(error_of([&] { (void)predict(ctx, *pixart, rows); }).code(),
            Errc::invalid_argument);
}

TEST(PixArtPrompt, IsKnownFromTheDescription) {
  EXPECT_EQ(describe(small_config())->prompt_width(), 0);
  const DenoiserInfo info =
      describe(small_pixart_config())->info({4, 10, 10}, DType::f32);
  EXPECT_EQ(info.branch_order, BranchOrder::uncond_cond);
  EXPECT_EQ(info.num_classes, 0);
  EXPECT_EQ(info.out_channels, 8);
  EXPECT_EQ(info.guided_channels, 4);
}

}  // namespace
}  // namespace troupe::models

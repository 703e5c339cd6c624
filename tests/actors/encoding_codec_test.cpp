// Prompts that another process encodes, on their way.

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "actors/wire/news_codec.h"
#include "kernels/core/error.h"
#include "tests/actors/news_filler.h"
#include "tests/actors/news_trip.h"
#include "tests/actors/some_encoding.h"

namespace troupe::actors {
namespace {

using wire::News;

TEST(EncodingCodec, BringsAnOfferBack) {
  const EncodingRecord record = some_encoding();
  const EncodingRecord came = there_and_back(EncodingOffer{record}).record;
  EXPECT_EQ(came.model, record.model);
  EXPECT_TRUE(came.random_weights);
  EXPECT_EQ(came.dtype, record.dtype);
  EXPECT_EQ(came.isa, record.isa);
  EXPECT_EQ(came.device, record.device);
  EXPECT_EQ(came.execution_class, record.execution_class);
  ASSERT_EQ(came.encoders.size(), record.encoders.size());
  for (std::size_t e = 0; e < came.encoders.size(); ++e) {
    EXPECT_EQ(came.encoders[e].name, record.encoders[e].name);
    EXPECT_EQ(came.encoders[e].class_name, record.encoders[e].class_name);
    EXPECT_EQ(came.encoders[e].config, record.encoders[e].config);
  }
  ASSERT_EQ(came.texts.size(), record.texts.size());
  for (std::size_t i = 0; i < came.texts.size(); ++i) {
    const EncodingText& text = record.texts[i];
    EXPECT_EQ(came.texts[i].encoder, text.encoder);
    EXPECT_EQ(came.texts[i].ids, text.ids);
    EXPECT_EQ(came.texts[i].wanted.skipped_layers, text.wanted.skipped_layers);
    EXPECT_EQ(came.texts[i].wanted.final_norm, text.wanted.final_norm);
    EXPECT_EQ(came.texts[i].is_kept, text.is_kept);
    EXPECT_EQ(came.texts[i].key_length, text.key_length);
  }
  EncodingRecord other = record;
  other.isa.reset();
  other.device.reset();
  const EncodingRecord plain = there_and_back(EncodingOffer{other}).record;
  EXPECT_FALSE(plain.isa);
  EXPECT_FALSE(plain.device);
}

TEST(EncodingCodec, BringsTheAnswerBack) {
  const TextEncoded text{7, {zeros_of({2, 3}), zeros_of({4})}};
  const TextEncoded came = there_and_back(text);
  EXPECT_EQ(came.text, 7U);
  EXPECT_EQ(came.encoded.hidden.shape(), (Shape{2, 3}));
  EXPECT_EQ(came.encoded.pooled.shape(), (Shape{4}));
  EXPECT_TRUE(there_and_back(TextEncoded{0, {zeros_of({1, 1}), {}}})
                  .encoded.pooled.empty());
  const EncodingDone done = there_and_back(some_end());
  EXPECT_EQ(done.execution_class, some_end().execution_class);
  EXPECT_EQ(done.encoder_class, some_end().encoder_class);
  EXPECT_EQ(done.weights_xxh3, some_end().weights_xxh3);
  EXPECT_EQ(done.device, some_end().device);
  const EncodingRefused refused{Filler().failure()};
  EXPECT_EQ(there_and_back(refused).cause.message, refused.cause.message);
  (void)there_and_back(StandBy{});
  (void)there_and_back(NextJob{});
}

TEST(EncodingCodec, RefusesClassesThatAreNone) {
  EncodingRecord record = some_encoding();
  record.execution_class = "0123456789ABCDEF";
  EXPECT_THROW((void)there_and_back(EncodingOffer{record}), Error);
  EncodingDone done = some_end();
  done.encoder_class = "\x1b[2J";
  EXPECT_THROW((void)there_and_back(done), Error);
}

/// A record takes memory for each of its texts, and two bytes on its way.
TEST(EncodingCodec, RefusesMoreTextsThanARecordHas) {
  EncodingRecord record = some_encoding();
  record.texts.assign(kMostEncodingTexts, record.texts.front());
  EXPECT_EQ(there_and_back(EncodingOffer{record}).record.texts.size(),
            kMostEncodingTexts);
  record.texts.resize(wire::kMostNewsEntries);
  EXPECT_THROW((void)there_and_back(EncodingOffer{record}), Error);
}

TEST(EncodingCodec, LivesThroughChangedAndShortenedBytes) {
  const std::string messages[] = {
      wire::encode(News(EncodingOffer{some_encoding()})),
      wire::encode(News(some_texts().back())), wire::encode(News(some_end())),
      wire::encode(News(EncodingRefused{Filler().failure()}))};
  std::mt19937 random(12);
  std::size_t num_refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = messages[random() % std::size(messages)];
    if (random() % 2 == 0) {
      bytes.resize(random() % bytes.size());
    }
    for (std::uint32_t n = random() % 4; n > 0 && !bytes.empty(); --n) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    try {
      const News news = wire::decode_news(bytes_of(bytes));
      if (const auto* offer = std::get_if<EncodingOffer>(&news)) {
        check(offer->record);
      }
    } catch (const Error& error) {
      ++num_refused;
      EXPECT_EQ(error.code(), Errc::corrupt_file) << error.what();
    }
  }
  EXPECT_GT(num_refused, 5000U);
}

TEST(EncodingRecord, ThatNoProcessMakesIsRefused) {
  check(some_encoding());
  const std::vector<std::function<void(EncodingRecord&)>> damages = {
      [](auto& r) { r.model.clear(); },
      [](auto& r) { r.model.assign(257, 'a'); },
      [](auto& r) { r.dtype = DType::f16; },
      [](auto& r) { r.execution_class = "none"; },
      [](auto& r) { r.encoders.clear(); },
      [](auto& r) { r.encoders.resize(9, r.encoders.front()); },
      [](auto& r) { r.encoders.back().name.clear(); },
      [](auto& r) { r.encoders.back().config.resize((1U << 20U) + 1); },
      [](auto& r) { r.texts.clear(); },
      [](auto& r) { r.texts.back().encoder = 2; },
      [](auto& r) { r.texts.back().encoder = -1; },
      [](auto& r) { r.texts.back().ids.clear(); },
      [](auto& r) { r.texts.back().ids.resize(4097); },
      [](auto& r) { r.texts.back().key_length = 2; },
      [](auto& r) { r.texts.back().key_length = -1; },
      [](auto& r) { r.texts.back().wanted.skipped_layers = -1; },
      [](auto& r) { r.texts.back().wanted.skipped_layers = 1 << 20U; }};
  for (std::size_t i = 0; i < damages.size(); ++i) {
    EncodingRecord record = some_encoding();
    damages[i](record);
    EXPECT_THROW(check(record), Error) << i;
  }
}

}  // namespace
}  // namespace troupe::actors

// Ids as the `tokenizers` library gives them: scripts/make_text_golden.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "models/text/bundled_tokenizers.h"
#include "tests/models/text/token_helpers.h"

namespace troupe::models {
namespace {

TEST(TokenizerGolden, GivesTheIdsOfTheLibrary) {
  std::size_t folders = 0;
  for (const auto& folder : golden_folders("tokens_")) {
    ++folders;
    const auto tokenizer = open_tokenizer(folder);
    const auto cases =
        nlohmann::json::parse(std::ifstream(folder / "golden.json"));
    ASSERT_GT(cases.size(), 80U);
    for (const auto& item : cases) {
      const auto text = item["text"].get<std::string>();
      const auto ids = item["ids"].get<std::vector<std::int32_t>>();
      const auto size = static_cast<std::int64_t>(ids.size());
      EXPECT_EQ(tokenizer->encode(text, size).ids, ids)
          << folder.filename() << ": " << item["text"];
      const Tokens cut = tokenizer->encode(text, 16);
      EXPECT_EQ(cut.ids, item["ids16"].get<std::vector<std::int32_t>>())
          << folder.filename() << ": " << item["text"];
      EXPECT_EQ(cut.length, std::min<std::int64_t>(size, 16));
      EXPECT_EQ(cut.cut, std::max<std::int64_t>(size - 16, 0));
      EXPECT_EQ(cut.cut_text.empty(), cut.cut == 0) << item["text"];
    }
  }
  EXPECT_EQ(folders, 4U);
}

TEST(TokenizerGolden, ReadsTheSettings) {
  const auto clip = make_tokenizer(golden_tokenizer("tokens_clip_files"));
  EXPECT_EQ(clip->max_length(), 77);
  EXPECT_EQ(clip->encode("", 4).ids.back(), clip->vocab_size() - 1);
  EXPECT_EQ(clip->encode("", 4).length, 2);
  const auto open_clip = make_tokenizer(golden_tokenizer("tokens_clip_json"));
  EXPECT_EQ(open_clip->encode("", 4).ids.back(), 0);  // "!", not the end mark
  const auto t5 = make_tokenizer(golden_tokenizer("tokens_t5_files"));
  EXPECT_EQ(t5->max_length(), 512);
  EXPECT_THAT(t5->encode("", 3).ids, testing::ElementsAre(1, 0, 0));
  const auto umt5 = make_tokenizer(golden_tokenizer("tokens_umt5_json"));
  EXPECT_EQ(umt5->max_length(), std::nullopt);  // 1e30: none
}

TEST(BundledTokenizers, HaveTheMarksOfTheRealOnes) {
  const auto clip = open_bundled_tokenizer("clip");
  EXPECT_EQ(clip->max_length(), 77);
  EXPECT_EQ(clip->vocab_size(), 49408);
  const Tokens tokens = clip->encode("a photo of a cat", 77);
  EXPECT_EQ(tokens.length, 7);
  EXPECT_EQ(tokens.ids[0], 49406);
  EXPECT_EQ(tokens.ids[6], 49407);
  EXPECT_EQ(tokens.ids[76], 49407);
  const auto t5 = open_bundled_tokenizer("t5");
  EXPECT_EQ(t5->max_length(), 512);
  EXPECT_LE(t5->vocab_size(), 32128);
  EXPECT_THAT(t5->encode("", 3).ids, testing::ElementsAre(1, 0, 0));
  EXPECT_THAT(t5->encode("\U0001fae0", 5).ids, testing::Contains(2));
  // Texts differ, and no word of the first is cut into letters.
  EXPECT_LT(t5->encode("a photo of a cat", 77).length, 10);
  EXPECT_NE(t5->encode("a red fox", 77).ids, t5->encode("a red car", 77).ids);
  EXPECT_EQ(error_of([] { (void)open_bundled_tokenizer("CLIP"); }).code(),
            Errc::not_found);
}

TEST(BundledTokenizers, AreFoldersThatAnybodyCanOpen) {
  const TemporaryFolder folder;
  for (const auto& [path, text] : bundled_tokenizer_files()) {
    folder.write(path, text);
  }
  const std::string text = "A watercolor painting, 1 lighthouse's ☆ light";
  for (const char* name : {"clip", "t5"}) {
    const auto opened = open_tokenizer(folder.path() / name);
    EXPECT_EQ(opened->encode(text, 77).ids,
              open_bundled_tokenizer(name)->encode(text, 77).ids);
  }
}

TEST(TokenizerGolden, SaysWhatWasCut) {
  const auto clip = make_tokenizer(golden_tokenizer("tokens_clip_files"));
  const std::string text = "a photo of a Cat, and MORE";
  const std::int64_t all = clip->encode(text, 100).length;
  for (std::int64_t size = 2; size < all; ++size) {
    const Tokens tokens = clip->encode(text, size);
    EXPECT_EQ(tokens.length, size);
    EXPECT_EQ(tokens.cut, all - size);
    EXPECT_TRUE(
        std::string("a photo of a cat , and more").ends_with(tokens.cut_text))
        << tokens.cut_text;
  }
  EXPECT_EQ(clip->encode(text, 2).cut_text, "a photo of a cat , and more");
  const auto t5 = make_tokenizer(golden_tokenizer("tokens_t5_files"));
  EXPECT_EQ(t5->encode("a photo  of cats", 1).cut_text, "a photo of cats");
  // A character that does not fit whole is shown whole.
  const std::string wide = "日本語";
  const std::int64_t pieces = clip->encode(wide, 100).length;
  for (std::int64_t size = 2; size < pieces; ++size) {
    const std::string cut = clip->encode(wide, size).cut_text;
    EXPECT_THAT((std::vector<std::string>{wide, "本語", "語"}),
                testing::Contains(cut));
  }
}

}  // namespace
}  // namespace troupe::models

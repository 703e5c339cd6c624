// What users may give a tokenizer: texts that are none, folders that are none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/text/bundled_tokenizers.h"
#include "tests/models/text/token_helpers.h"

namespace troupe::models {
namespace {

// A mark in capitals is no token, and its last word does not reach beyond it,
// also where another mark stood before. The ids are those of the Python
// package.
TEST(Tokenizer, KeepsTypedMarksApartFromWhatFollows) {
  const auto clip = make_tokenizer(golden_tokenizer("tokens_clip_files"));
  const auto ids = [&](std::string_view text) {
    return clip->encode(text, 77).ids;
  };
  EXPECT_EQ(ids("<|ENDOFTEXT|><|ENDOFTEXT|>'RE "),
            ids("<|ENDOFTEXT|> <|ENDOFTEXT|> 'RE "));
  EXPECT_EQ(ids("<|ENDOFTEXT|><|STARTOFTEXT|>!"),
            ids("<|ENDOFTEXT|> <|STARTOFTEXT|> !"));
  EXPECT_NE(ids("<|ENDOFTEXT>!"), ids("<|ENDOFTEXT> !"));
  EXPECT_THAT(
      open_bundled_tokenizer("clip")
          ->encode("<|ENDOFTEXT|><|ENDOFTEXT|>'RE ", 20)
          .ids,
      testing::ElementsAre(49406, 27, 347, 532, 646, 69, 1979, 91, 285, 27, 347,
                           532, 646, 69, 1979, 91, 285, 6, 1972, 49407));
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const auto t5 = make_tokenizer(golden_tokenizer("tokens_t5_files"));
  for (const std::string bad : {"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xe6\x97",
                                "\xf4\x90\x80\x80", "\x80"}) {
    const Error error =
        error_of([&] { (void)t5->encode("a photo " + bad, 77); });
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    EXPECT_TRUE(contains(error.message(), "offset 8")) << error.what();
  }
}

TEST(Tokenizer, RefusesLengthsWithoutRoomForTheMarks) {
  const auto clip = make_tokenizer(golden_tokenizer("tokens_clip_files"));
  EXPECT_EQ(clip->encode("cat", 2).length, 2);
  for (const std::int64_t length :
       {INT64_MIN, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1},
        std::int64_t{2'000'000}, INT64_MAX}) {
    EXPECT_EQ(error_of([&] { (void)clip->encode("cat", length); }).code(),
              Errc::invalid_argument);
  }
  const auto t5 = make_tokenizer(golden_tokenizer("tokens_t5_files"));
  EXPECT_THAT(t5->encode("cat", 1).ids, testing::ElementsAre(1));
  EXPECT_EQ(error_of([&] { (void)t5->encode("cat", 0); }).code(),
            Errc::invalid_argument);
}

TEST(Tokenizer, RefusesTextOfMoreThanAMegabyte) {
  const auto t5 = make_tokenizer(golden_tokenizer("tokens_t5_files"));
  const std::string text((std::size_t{1} << 20U) + 1, 'a');
  EXPECT_EQ(error_of([&] { (void)t5->encode(text, 77); }).code(),
            Errc::invalid_argument);
}

// With steps of n² these would take minutes.
TEST(Tokenizer, TakesLongWordsInItsStride) {
  std::string marks = "a";
  while (marks.size() < 200'000) {
    marks += "\u0301\u0316";
  }
  for (const char* name : {"tokens_clip_files", "tokens_t5_files"}) {
    const auto tokenizer = make_tokenizer(golden_tokenizer(name));
    for (const std::string& text :
         {std::string(200'000, 'a'), std::string(200'000, '!'), marks}) {
      const Tokens tokens = tokenizer->encode(text, 77);
      EXPECT_GT(tokens.length + tokens.cut, 2);
      EXPECT_LE(tokens.length, 77);
    }
  }
}

TEST(Tokenizer, SaysWhatAFolderLacks) {
  const TemporaryFolder folder;
  const Error empty = error_of([&] { (void)open_tokenizer(folder.path()); });
  EXPECT_EQ(empty.code(), Errc::not_found);
  EXPECT_TRUE(contains(empty.what(), "spiece.model")) << empty.what();
  folder.write("vocab.json", R"({"a":0})");
  EXPECT_EQ(error_of([&] { (void)open_tokenizer(folder.path()); }).code(),
            Errc::not_found);
  EXPECT_EQ(error_of([&] { (void)open_tokenizer("/nowhere/at/all"); }).code(),
            Errc::not_found);
}

TEST(Tokenizer, NamesATokenizerOfAnotherKind) {
  struct Change {
    const char* folder;
    const char* file;
    const char* from;
    const char* to;
  };
  for (const auto& [folder, file, from, to] : {
           Change{"tokens_clip_files", "tokenizer_config.json",
                  "\"CLIPTokenizer\"", "\"Qwen2Tokenizer\""},
           Change{"tokens_clip_files", "tokenizer_config.json",
                  "\"CLIPTokenizer\"", "\"T5Tokenizer\""},
           Change{"tokens_clip_json", "tokenizer.json", "\"NFC\"", "\"NFKC\""},
           Change{"tokens_clip_json", "tokenizer.json", "\"ByteLevel\"",
                  "\"Whitespace\""},
           Change{"tokens_clip_json", "tokenizer.json",
                  R"("end_of_word_suffix":"</w>")",
                  R"("end_of_word_suffix":"")"},
           Change{"tokens_clip_json", "tokenizer.json", "\"BPE\"",
                  "\"WordPiece\""},
           Change{"tokens_umt5_json", "tokenizer.json", "\"Precompiled\"",
                  "\"BertNormalizer\""},
           Change{"tokens_umt5_json", "tokenizer.json", "\"WhitespaceSplit\"",
                  "\"Digits\""},
       }) {
    const Error error = error_with(golden_tokenizer(folder), file, from, to);
    EXPECT_EQ(error.code(), Errc::unsupported) << to << ": " << error.what();
    const std::string_view name =
        std::string_view(to).substr(1, std::string_view(to).size() - 2);
    if (!contains(to, "suffix")) {
      EXPECT_TRUE(contains(error.what(), name)) << error.what();
    }
  }
}

TEST(Tokenizer, RefusesSettingsThatItDoesNotFollow) {
  const auto clip = golden_tokenizer("tokens_clip_files");
  const auto change = [&](std::string_view to) {
    return error_with(clip, "tokenizer_config.json", "\"model_max_length\": 77",
                      to);
  };
  EXPECT_EQ(change(R"("padding_side": "left")").code(), Errc::unsupported);
  EXPECT_EQ(change(R"("truncation_side": "left")").code(), Errc::unsupported);
  EXPECT_EQ(change(R"("model_max_length": "77")").code(), Errc::corrupt_file);
  EXPECT_EQ(change(R"("model_max_length": -1)").code(), Errc::corrupt_file);
  EXPECT_EQ(change(R"("a": 1, "a": 2)").code(), Errc::corrupt_file);
  EXPECT_EQ(change(R"("added_tokens_decoder": {"x": "<a>"})").code(),
            Errc::corrupt_file);
  EXPECT_EQ(change(R"("added_tokens_decoder":
                   {"1": {"content": "<a>", "single_word": true}})")
                .code(),
            Errc::unsupported);
}

TEST(Tokenizer, RefusesBrokenVocabularies) {
  struct Change {
    const char* folder;
    const char* file;
    const char* from;
    const char* to;
  };
  for (const auto& [folder, file, from, to] : {
           Change{"tokens_clip_files", "vocab.json", "{", "["},
           Change{"tokens_clip_files", "vocab.json", "\": 0,", "\": -1,"},
           Change{"tokens_clip_files", "vocab.json", "\": 0,", "\": 1.5,"},
           Change{"tokens_clip_files", "vocab.json", "\": 0,", "\": 1e9,"},
           Change{"tokens_clip_files", "vocab.json", "\": 0,", "\": [0],"},
           Change{"tokens_clip_files", "vocab.json", "\": 0,", "\": \"x\","},
           Change{"tokens_clip_files", "vocab.json", "\": 0,", "\": null,"},
           Change{"tokens_clip_files", "merges.txt", "a t\n", "a\n"},
           Change{"tokens_clip_files", "merges.txt", "a t\n", "a t e\n"},
           Change{"tokens_clip_files", "merges.txt", "a t\n", "a nowhere\n"},
           Change{"tokens_clip_files", "merges.txt", "a t\n", "a \xff\n"},
           Change{"tokens_clip_json", "tokenizer.json", "\"merges\":[",
                  "\"merges\":[1,"},
           Change{"tokens_clip_json", "tokenizer.json", "\"merges\":[",
                  "\"merges\":[[\"a\"],"},
           Change{"tokens_clip_json", "tokenizer.json", "\"vocab\":{",
                  "\"vocab\":{\"\\ud800\":1,"},
           Change{"tokens_umt5_json", "tokenizer.json", "\"vocab\": [",
                  "\"vocab\": [[\"a\", 1, 2],"},
           Change{"tokens_umt5_json", "tokenizer.json", "\"vocab\": [",
                  "\"vocab\": [[1, \"a\"],"},
           Change{"tokens_umt5_json", "tokenizer.json", "\"unk_id\": 3",
                  "\"unk_id\": 3000000"},
           Change{"tokens_umt5_json", "tokenizer.json", "\"unk_id\": 3",
                  "\"unk_id\": null"},
           Change{"tokens_umt5_json", "tokenizer.json",
                  "\"precompiled_charsmap\": \"",
                  "\"precompiled_charsmap\": \"????"},
       }) {
    const Error error = error_with(golden_tokenizer(folder), file, from, to);
    EXPECT_EQ(error.code(), Errc::corrupt_file) << to << ": " << error.what();
    EXPECT_FALSE(contains(error.what(), "\n"));
  }
}

TEST(Tokenizer, BoundsPiecesAndTheirNumber) {
  auto files = golden_tokenizer("tokens_clip_files");
  const std::string vocab = files.texts["vocab.json"];
  files.texts["vocab.json"] =
      with(vocab, "{", "{\"" + std::string(1025, 'x') + "\": 7777, ");
  EXPECT_EQ(error_of([&] { (void)make_tokenizer(files); }).code(),
            Errc::corrupt_file);
  files.texts["vocab.json"] =
      with(vocab, "{", "{\"" + std::string(1024, 'x') + "\": 7777, ");
  EXPECT_EQ(make_tokenizer(files)->vocab_size(), 7778);
}

// Any file that ends early is one line, not a crash.
TEST(Tokenizer, RefusesFilesThatEndEarly) {
  for (const auto& folder : golden_folders("tokens_")) {
    const TokenizerFiles whole = read_tokenizer_files(folder);
    for (const auto& [name, text] : whole.texts) {
      for (std::size_t part = 0; part < 40; ++part) {
        TokenizerFiles files = whole;
        files.texts[name].resize(text.size() * part / 40);
        try {
          (void)make_tokenizer(files)->encode("a photo of a cat", 77);
          // Fewer merges, or pieces, are a tokenizer, too.
          EXPECT_TRUE(name == "merges.txt" || name == "spiece.model")
              << folder << name << part;
        } catch (const Error& error) {
          EXPECT_FALSE(contains(error.what(), "\n")) << error.what();
        }
      }
    }
  }
}

}  // namespace
}  // namespace troupe::models

// What users may give a tokenizer: texts that are none, folders that are none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

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

// A file that is optional, too: without it prompts are other ids.
TEST(Tokenizer, SaysWhereALinkToNothingLeads) {
  const auto expect_named = [](const std::filesystem::path& folder,
                               const std::filesystem::path& link) {
    const Error error = error_of([&] { (void)open_tokenizer(folder); });
    EXPECT_EQ(error.code(), Errc::not_found) << error.what();
    EXPECT_TRUE(contains(error.what(), link.string() + " is a link to "
                                                       "../blobs/0123, which "
                                                       "is not there"))
        << error.what();
  };
  for (const char* name :
       {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
        "tokenizer.json", "vocab.json", "merges.txt", "spiece.model"}) {
    const TemporaryFolder folder;
    const std::filesystem::path tokenizer = folder.path() / "tokenizer";
    std::filesystem::copy(
        std::filesystem::path(TROUPE_GOLDEN_DIR) / "tokens_clip_files",
        tokenizer);
    std::filesystem::remove(tokenizer / name);
    std::filesystem::create_symlink("../blobs/0123", tokenizer / name);
    expect_named(tokenizer, tokenizer / name);
  }
  const TemporaryFolder folder;
  const std::filesystem::path tokenizer = folder.path() / "tokenizer";
  std::filesystem::create_symlink("../blobs/0123", tokenizer);
  expect_named(tokenizer, tokenizer);
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
  EXPECT_EQ(change(R"("model_max_length": 77.5)").code(), Errc::corrupt_file);
  EXPECT_EQ(change(R"("split_special_tokens": true)").code(),
            Errc::unsupported);
  EXPECT_EQ(change(R"("a": 1, "a": 2)").code(), Errc::corrupt_file);
  EXPECT_EQ(change(R"("added_tokens_decoder": {"x": "<a>"})").code(),
            Errc::corrupt_file);
  EXPECT_EQ(change(R"("added_tokens_decoder":
                   {"1": {"content": "<a>", "single_word": true}})")
                .code(),
            Errc::unsupported);
}

/// The ids of a text without padding.
std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer,
                                 std::string_view text) {
  Tokens tokens = tokenizer.encode(text, 77);
  tokens.ids.resize(static_cast<std::size_t>(tokens.length));
  return tokens.ids;
}

/// A golden tokenizer with this added_tokens.json.
TokenizerFiles with_added(std::string_view folder, const char* added) {
  TokenizerFiles files = golden_tokenizer(folder);
  files.texts["added_tokens.json"] = added;
  return files;
}

// Folders from before added_tokens_decoder. The ids are those of transformers
// 5.24 (huggingface/diffusers#2182).
TEST(Tokenizer, ReadsAddedTokensThatHaveAFileOfTheirOwn) {
  using testing::ElementsAre;
  const auto clip =
      make_tokenizer(with_added("tokens_clip_files", R"({"<cat-toy>": 634})"));
  const auto expected =
      ElementsAre(632, 634, 79, 541, 83, 334, 515, 634, 269, 633);
  EXPECT_THAT(ids_of(*clip, "<cat-toy> photo of <cat-toy>."), expected);
  EXPECT_THAT(ids_of(*clip, "<CAT-toy> photo of <Cat-Toy>."), expected);
  EXPECT_EQ(clip->vocab_size(), 635);
  EXPECT_THAT(clip->notes(), testing::IsEmpty());
  const auto in_order = make_tokenizer(
      with_added("tokens_clip_files", R"({"<a>": 635, "<b>": 634})"));
  EXPECT_THAT(ids_of(*in_order, "<a> <b>"), ElementsAre(632, 635, 634, 633));
  const auto json =
      make_tokenizer(with_added("tokens_clip_json", R"({"<dog>": 635})"));
  EXPECT_THAT(ids_of(*json, "a <dog> <cat-toy>"),
              ElementsAre(632, 320, 635, 634, 633));
  const auto t5 =
      make_tokenizer(with_added("tokens_t5_files", R"({"<x>": 220})"));
  EXPECT_THAT(ids_of(*t5, "a <x> b"), ElementsAre(4, 220, 30, 1));
}

TEST(Tokenizer, LooksForSpecialAddedTokensInTheTextAsItIs) {
  TokenizerFiles files =
      with_added("tokens_clip_files", R"({"<Cat-Toy>": 634})");
  std::string& map = files.texts["special_tokens_map.json"];
  map = with(map, "{", R"({"mask_token": "<Cat-Toy>", )");
  const auto clip = make_tokenizer(files);
  const auto ids = ids_of(*clip, "<cat-toy> <Cat-Toy>");
  EXPECT_EQ(std::ranges::count(ids, 634), 1);
  EXPECT_EQ(ids.at(ids.size() - 2), 634);
}

TEST(Tokenizer, DoesNotReadAddedTokensBesideNewerSettings) {
  TokenizerFiles files =
      with_added("tokens_clip_files", R"({"<cat-toy>": 634})");
  std::string& config = files.texts["tokenizer_config.json"];
  config = with(config, "{", R"({"added_tokens_decoder": {}, )");
  EXPECT_EQ(make_tokenizer(files)->vocab_size(), 634);
}

// As transformers 5 numbers them; the row 700 of an encoder is then no token's.
TEST(Tokenizer, NotesAddedTokensWhoseIdsAreNotTheirOrder) {
  const auto clip =
      make_tokenizer(with_added("tokens_clip_files", R"({"<cat-toy>": 700})"));
  EXPECT_EQ(ids_of(*clip, "<cat-toy>").at(1), 634);
  EXPECT_THAT(clip->notes(), testing::ElementsAre(testing::HasSubstr(
                                 "'<cat-toy>' the id 700; it is 634")));
}

TEST(Tokenizer, NotesAddedTokensThatAreOneWordToIt) {
  const char* both = R"({"<cat>": 634, "<Cat>": 635})";
  const auto clip = make_tokenizer(with_added("tokens_clip_files", both));
  EXPECT_THAT(clip->notes(),
              testing::ElementsAre(testing::HasSubstr(
                  "'<cat>' and '<Cat>' are one word to this tokenizer: the row "
                  "of '<Cat>', 635, is taken for both, never row 634")));
  for (const char* word : {"<cat>", "<Cat>", "<CAT>"}) {
    EXPECT_EQ(ids_of(*clip, word).at(1), 635) << word;
  }
  const auto more = make_tokenizer(with_added(
      "tokens_clip_files", R"({"<CAT>": 634, "<cat>": 635, "<Cat>": 636})"));
  EXPECT_THAT(more->notes(),
              testing::ElementsAre(testing::HasSubstr("; so with 1 more")));
  // T5's keeps capitals apart.
  const auto t5 = make_tokenizer(
      with_added("tokens_t5_files", R"({"<x>": 220, "<X>": 221})"));
  EXPECT_THAT(t5->notes(), testing::IsEmpty());
}

TEST(Tokenizer, RefusesAddedTokensWithoutAnIdOfTheirOwn) {
  for (const char* bad :
       {"[]", R"(["<a>"])", R"({"<a>": "634"})", R"({"<a>": -1})",
        R"({"<a>": 634.5})", R"({"<a>": null})", R"({"<a>": 99999999999})",
        R"({"<a>": 634, "<b>": 634})", R"({"<a>": 634, "<a>": 635})", "{"}) {
    const Error error = error_of(
        [&] { (void)make_tokenizer(with_added("tokens_clip_files", bad)); });
    EXPECT_EQ(error.code(), Errc::corrupt_file) << bad;
    EXPECT_TRUE(contains(error.place(), "added_tokens.json")) << bad;
  }
}

// What diffusers' maybe_convert_prompt makes of these texts.
TEST(Tokenizer, NamesAllVectorsOfAWord) {
  const auto clip = make_tokenizer(
      with_added("tokens_clip_files",
                 R"({"<toy>": 634, "<toy>_1": 635, "<toy>_2": 636, "<dog>": 637,
          "<Big>": 638, "<Big>_1": 639, "<gap>": 640, "<gap>_2": 641})"));
  const std::pair<const char*, const char*> cases[] = {
      {"a <toy> and <toy>.",
       "a <toy> <toy>_1 <toy>_2 and <toy> <toy>_1 <toy>_2."},
      {"<toy>_1 <toy>", "<toy> <toy>_1 <toy>_2_1 <toy> <toy>_1 <toy>_2"},
      {"<toy>_1", "<toy>_1"},
      {"<TOY> cat", "<TOY> cat"},
      {"<dog> <gap>", "<dog> <gap>"},
      // What is found is "<big>", which is no token.
      {"<Big> <BIG>", "<Big> <BIG>"},
      {"no toy", "no toy"},
      {"", ""}};
  for (const auto& [text, all] : cases) {
    EXPECT_EQ(clip->with_all_vectors(text), all);
  }
  EXPECT_THAT(ids_of(*clip, clip->with_all_vectors("a <toy>")),
              testing::ElementsAre(632, 320, 634, 635, 636, 633));
}

TEST(Tokenizer, RefusesTextThatAllVectorsMakeTooLong) {
  const auto clip = make_tokenizer(
      with_added("tokens_clip_files", R"({"<toy>": 634, "<toy>_1": 635})"));
  std::string text;
  while (text.size() < (std::size_t{1} << 19U)) {
    text += "<toy>";
  }
  EXPECT_EQ(error_of([&] { (void)clip->with_all_vectors(text); }).code(),
            Errc::invalid_argument);
}

// transformers 5 takes every key of either file.
TEST(Tokenizer, FollowsKeysThatChangeIds) {
  const auto ids = [](const char* folder, const char* file, const char* key,
                      std::string_view text) {
    TokenizerFiles files = golden_tokenizer(folder);
    std::string& json = files.texts[file];
    json = json.empty() ? "{" + std::string(key) + "}"
                        : with(json, "{", "{" + std::string(key) + ", ");
    return ids_of(*make_tokenizer(files), text);
  };
  const char* config = "tokenizer_config.json";
  const char* map = "special_tokens_map.json";
  const char* t5 = "tokens_t5_files";
  using testing::ElementsAre;
  const char* text = "<extra_id_3> <x> </s>";
  EXPECT_THAT(ids(t5, config, R"("a": 1)", text),
              ElementsAre(216, 3, 2, 63, 2, 1, 1));
  EXPECT_THAT(ids(t5, config, R"("extra_special_tokens": {"x": "<x>"})", text),
              ElementsAre(216, 220, 1, 1));
  EXPECT_THAT(ids(t5, map, R"("x_token": "<x>")", text),
              ElementsAre(216, 220, 1, 1));
  // Listed tokens stand in place of the sentinels, which stay pieces.
  EXPECT_THAT(ids(t5, config, R"("additional_special_tokens": ["<x>"])", text),
              ElementsAre(3, 216, 220, 1, 1));
  EXPECT_THAT(ids(t5, map, R"("additional_special_tokens": ["<x>"])", text),
              ElementsAre(216, 3, 2, 63, 2, 1, 1));
  EXPECT_THAT(ids(t5, map, R"("extra_special_tokens": ["<x>"])", text),
              ElementsAre(3, 216, 220, 1, 1));
  const auto length = [](const char* from, const char* to) {
    TokenizerFiles files = golden_tokenizer("tokens_clip_files");
    files.texts["tokenizer_config.json"] =
        with(files.texts["tokenizer_config.json"], from, to);
    return make_tokenizer(files)->max_length();
  };
  const char* stated = "\"model_max_length\": 77";
  EXPECT_EQ(length(stated, stated), 77);
  EXPECT_EQ(length(stated, "\"model_max_length\": 248"), 248);
  EXPECT_EQ(length(stated, "\"max_len\": 20"), 20);
  EXPECT_EQ(length(stated, "\"model_max_length\": 1e30"), std::nullopt);
  EXPECT_EQ(length(stated, "\"a\": 1"), std::nullopt);
}

TEST(Tokenizer, RefusesATokenizerJsonThatPadsOrCutsAtTheLeft) {
  TokenizerFiles files = golden_tokenizer("tokens_clip_json");
  std::string& json = files.texts["tokenizer.json"];
  const std::string whole = json;
  std::string& config = files.texts["tokenizer_config.json"];
  for (const auto& [part, side] :
       {std::pair{"padding", "padding_side"},
        std::pair{"truncation", "truncation_side"}}) {
    json = with(whole, "\"" + std::string(part) + "\":null",
                "\"" + std::string(part) + R"(":{"direction":"Left"})");
    const Error error = error_of([&] { (void)make_tokenizer(files); });
    EXPECT_EQ(error.code(), Errc::unsupported) << error.what();
    EXPECT_TRUE(contains(error.what(), side)) << error.what();
    // What tokenizer_config.json says counts.
    const std::string before = config;
    config = with(config, "{", "{\"" + std::string(side) + "\": \"right\", ");
    EXPECT_NO_THROW((void)make_tokenizer(files));
    config = before;
  }
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

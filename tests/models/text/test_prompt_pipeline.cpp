#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "models/files/checkpoint.h"
#include "models/text/prompt_pipeline.h"
#include "models/text/prompt_syntax.h"
#include "models/text/python_text.h"
#include "models/text/tokenizer_kinds.h"
#include "tests/models/helpers.h"

namespace troupe::models {
namespace {

namespace fs = std::filesystem;

// Expected texts are what Python 3.11 prints.
TEST(PythonText, LowersAsPythonDoes) {
  EXPECT_EQ(python_lowered("A Red FOX"), "a red fox");
  EXPECT_EQ(python_lowered("ÄÖÜ ÇŞ ĐŁ"), "äöü çş đł");
  // The dotted capital I becomes two characters.
  EXPECT_EQ(python_lowered("\xC4\xB0"), "i\xCC\x87");
  // A sigma that ends a word, also before marks and signs; none that begins or
  // stands alone.
  EXPECT_EQ(python_lowered("ΟΔΥΣΣΕΥΣ ΣΑΣ"), "οδυσσευς σας");
  EXPECT_EQ(python_lowered("ΑΣ'"), "ας'");
  EXPECT_EQ(python_lowered("ΑΣ'Α"), "ασ'α");
  EXPECT_EQ(python_lowered("Σ"), "σ");
  EXPECT_EQ(python_lowered("ΑΣ\xCC\x81"), "ας\xCC\x81");
  EXPECT_EQ(python_lowered(""), "");
}

TEST(PythonText, StripsAsPythonDoes) {
  EXPECT_EQ(python_stripped(" \t\n a b \r\x1C"), "a b");
  // No-break and ideographic spaces, and the next-line character.
  EXPECT_EQ(python_stripped("\xC2\xA0\xE3\x80\x80"
                            "x"
                            "\xC2\x85"),
            "x");
  // What takes no room is no white space.
  EXPECT_EQ(python_stripped("\xE2\x80\x8B"), "\xE2\x80\x8B");
  EXPECT_EQ(python_stripped(" \n "), "");
  EXPECT_EQ(python_stripped(""), "");
}

TEST(PythonText, RefusesWhatIsNotUtf8) {
  EXPECT_EQ(error_of([] { (void)python_lowered("a\xFF"); }).code(),
            Errc::invalid_argument);
  EXPECT_EQ(error_of([] { (void)python_stripped("\xC3"); }).code(),
            Errc::invalid_argument);
}

TEST(PromptSyntax, OfOtherProgramsIsFound) {
  const std::pair<const char*, const char*> cases[] = {
      {"a (red:1.2) cat", "(red:1.2)"},
      {"(a cat:1)", "(a cat:1)"},
      {"(a (red) cat:1.3)", "(a (red) cat:1.3)"},
      {"a cat <lora:detail:0.8>", "<lora:detail:0.8>"},
      {"<LoRA:x:1>, cat", "<LoRA:x:1>"},
      {"<lyco:x:1:2> <b>", "<lyco:x:1:2>"},
      {"<hypernet:x:.5>", "<hypernet:x:.5>"},
      {"a ((red)) cat", "((red))"},
      {"(((red)))", "((red))"},
      {"a [[red]] cat", "[[red]]"},
      {"a {{red}} cat", "{{red}}"},
      {"a [cow|horse] here", "[cow|horse]"},
      {"a {cow|horse} here", "{cow|horse}"},
      {"[a|b]", "[a|b]"},
      {"a [cat:dog:0.5]", "[cat:dog:0.5]"},
      {"a [dog:10] cat", "[dog:10]"},
      {"a [cat::8]", "[cat::8]"},
      {"a cat BREAK a dog", "BREAK"},
      {"a cat, BREAK, a dog", "BREAK"},
      {"a cat\nBREAK\na dog", "BREAK"},
      {"a cat AND a dog", "AND"},
      {"a cat++ on a mat", "cat++"},
      {"x++", "x++"},
      {"a mat---, a cat", "mat---"},
      {"(red cat)++", "(red cat)"},
      {"(red cat)1.3", "(red cat)"},
      {"(\"a\", \"b\").blend(1, 1)", ").blend("},
      {"hata \\(style\\)", "\\("},
      {"a (cat: 1.2) here", "(cat: 1.2)"},
      {"a (cat:1.2 ) here", "(cat:1.2 )"},
      {"a [cat: 0.5]", "[cat: 0.5]"},
      {"a cat, embedding:easy-neg.pt, oil", "embedding:easy-neg.pt"},
      {"(embedding:foo:1.2)", "embedding:foo"},
      {"a __color__ cat", "__color__"},
      {"__animals/big-cat__", "__animals/big-cat__"},
      {"cat --ar 16:9", "--ar 16:9"},
      {"cat --v 6 --q 2", "--v 6"},
      {"a cat --no dogs, birds", "--no dogs,"},
      {"a cat --style raw", "--style raw"},
      {"a ADDCOL b", "ADDCOL"},
      {"a sky\nADDROW\na sea", "ADDROW"},
      {"(\xD0\xBA\xD0\xBE\xD1\x82:1.1)", "(\xD0\xBA\xD0\xBE\xD1\x82:1.1)"}};
  for (const auto& [prompt, found] : cases) {
    EXPECT_EQ(foreign_syntax(prompt), found) << prompt;
  }
}

TEST(PromptSyntax, IsNotOrdinaryText) {
  for (const char* prompt : {"",
                             "a cat",
                             "(best quality), 1girl: smile)",
                             "a cat (sitting)",
                             "portrait: a man (aged 40), oil",
                             "a (cat: a small one) here",
                             "a 16:9 picture (ratio 16:9)",
                             "at noon (12:30)",
                             "[closed]",
                             "a sign [sic] on a door",
                             "a sad face :(( and a glad one :))",
                             ":((",
                             "(a) and (b)",
                             "f(g(x))",
                             "a C++ book",
                             "an A++ rating",
                             "Notepad++",
                             "a cat--black and white",
                             "well-known",
                             "e = mc2 + 1 ++ 2",
                             "take a break",
                             "BREAK",
                             "BREAK the rules",
                             "COFFEE BREAK TIME",
                             "a neon sign saying BREAK in red",
                             "the word \"BREAK\" on it",
                             "LOVE AND PEACE",
                             "a BLACK AND WHITE photo",
                             "AND",
                             "ANDROID phone",
                             "a < b and b > a: yes",
                             "<cat-toy> on a mat",
                             "1 < 2: <b>",
                             "{x}",
                             "a|b",
                             "(a|b)",
                             "smile :)",
                             "a cat :3)",
                             "(a cat :3)",
                             "()",
                             "(())",
                             "[]",
                             "[|]",
                             "(:1.2)",
                             "((",
                             "))",
                             "a (b",
                             "x+",
                             "12++",
                             "a man (aged: 40)",
                             "(: 1.2)",
                             "(cat: 1.2",
                             "snake_case words",
                             "_emphasis_ and __init",
                             "fill in the ____ here",
                             "a__b__c",
                             "__",
                             "a cat --",
                             "a cat -- black",
                             "a cat --black and white",
                             "a cat --v",
                             "a cat --no",
                             "a cat --ar of gold",
                             "--ar 16:9",
                             "ADDCOL",
                             "an embedding: a vector",
                             "word-embedding:",
                             "embedding"}) {
    EXPECT_EQ(foreign_syntax(prompt), "") << prompt;
  }
  // Any text takes a time that grows with its size.
  for (const char* part :
       {"<", "(", "[", "{", ":1", "AND,", "BREAK ", "a++", "__", "__a",
        " --ar ", " --", "(a: ", "embedding:"}) {
    std::string text;
    while (text.size() < (std::size_t{1} << 20U)) {
      text += part;
    }
    (void)foreign_syntax(text);
  }
}

TEST(PromptPipeline, IsFoundByItsClass) {
  const PromptPipeline* pixart = find_prompt_pipeline("PixArtSigmaPipeline");
  ASSERT_NE(pixart, nullptr);
  ASSERT_EQ(pixart->encoders.size(), 1U);
  EXPECT_EQ(pixart->encoders[0].most_tokens, 300);
  EXPECT_TRUE(pixart->encoders[0].is_masked);
  EXPECT_EQ(pixart->cleaned(" A Fox "), "a fox");
  EXPECT_EQ(find_prompt_pipeline("DiTPipeline"), nullptr);
  EXPECT_EQ(find_prompt_pipeline(""), nullptr);
}

TEST(PromptPipeline, NamesAKindOfTokenizerForEachEncoder) {
  for (const PromptPipeline* pipeline : prompt_pipeline_table()) {
    for (const PromptEncoder& part : pipeline->encoders) {
      EXPECT_EQ(std::ranges::count(tokenizer_kinds(), part.tokenizer_kind,
                                   &TokenizerKind::name),
                1)
          << pipeline->class_name << ' ' << part.tokenizer;
    }
  }
}

TEST(PromptPipeline, KnowsHowManyTextsAPromptMayHave) {
  EXPECT_EQ(find_prompt_pipeline("PixArtSigmaPipeline")->num_texts(), 1);
  EXPECT_EQ(find_prompt_pipeline("StableDiffusionPipeline")->num_texts(), 1);
  const PromptPipeline& xl = *find_prompt_pipeline("StableDiffusionXLPipeline");
  EXPECT_EQ(xl.num_texts(), 2);
  EXPECT_EQ(xl.without_first->num_texts(), 1);
}

TEST(PromptPipeline, MakesAConditionOfWhatIsEncoded) {
  const PromptPipeline& pixart = *find_prompt_pipeline("PixArtSigmaPipeline");
  Tensor hidden({3, 4}, DType::f32);
  std::ranges::fill(hidden.span<float>(), 0.5F);
  const std::vector<EncodedPrompt> encoded = {{{hidden, {}}, 2}};
  const Condition condition = pixart.condition(encoded);
  const ConditionTensor* embeds = condition.find("prompt_embeds");
  ASSERT_NE(embeds, nullptr);
  EXPECT_EQ(embeds->length, 2);
  EXPECT_EQ(embeds->tensor.shape(), (Shape{3, 4}));
}

/// A PixArt-Sigma folder around the golden networks.
void make_pipeline(const TemporaryFolder& folder,
                   const std::string& text_encoder) {
  const fs::path golden = TROUPE_GOLDEN_DIR;
  fs::copy(golden / "pixart_default", folder.path() / "transformer");
  fs::copy(golden / "text_t5", folder.path() / "text_encoder");
  fs::copy(golden / "tokens_t5_files", folder.path() / "tokenizer");
  folder.write("model_index.json",
               R"({"_class_name": "PixArtSigmaPipeline", "text_encoder": )" +
                   text_encoder + "}");
}

TEST(Checkpoint, OpensTheTextEncodersOfItsPipeline) {
  const TemporaryFolder folder;
  make_pipeline(folder, R"(["transformers", "T5EncoderModel"])");
  const Checkpoint checkpoint = open_checkpoint(folder.path());
  ASSERT_EQ(checkpoint.text_encoders.size(), 1U);
  const Component& encoder = *checkpoint.text_encoders.at("text_encoder");
  EXPECT_EQ(encoder.class_name, "T5EncoderModel");
  EXPECT_EQ(encoder.folder, folder.path() / "text_encoder");
}

TEST(Checkpoint, DoesWithoutTextEncoders) {
  const TemporaryFolder folder;
  make_pipeline(folder, "[null, null]");
  fs::remove_all(folder.path() / "text_encoder");
  EXPECT_TRUE(open_checkpoint(folder.path()).text_encoders.empty());
  // A folder of another pipeline's name is not looked at.
  folder.write("text_encoder/config.json", "no JSON");
  folder.write("model_index.json", R"({"_class_name": "DiTPipeline"})");
  EXPECT_TRUE(open_checkpoint(folder.path()).text_encoders.empty());
}

TEST(Checkpoint, RefusesAComponentThatIsNoClass) {
  const TemporaryFolder folder;
  make_pipeline(folder, R"({"class": "T5EncoderModel"})");
  EXPECT_EQ(error_of([&] { (void)open_checkpoint(folder.path()); }).code(),
            Errc::corrupt_file);
}

}  // namespace
}  // namespace troupe::models

#include "actors/remote/model_files.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

using Files = std::vector<ModelFile>;

TEST(ModelFiles, AreListedAsTheyAre) {
  const Files files = {{"model_index.json", 836},
                       {"transformer/a b-00001-of-2.safetensors", 1ULL << 40U},
                       {"vae/config.json", 0}};
  EXPECT_EQ(decode_model_files(encode(files)), files);
  EXPECT_EQ(decode_model_files(""), Files{});
}

TEST(ModelFiles, AreRefusedWhereTheyAreNoneOfAFolder) {
  for (const std::string path :
       {"", "/etc/passwd", "../key", "a/../../key", "a//b", "a/", ".", "a/.",
        ".ssh/key", "a/.b", "a\\b", "a\tb", "a\x7f"}) {
    EXPECT_THROW((void)decode_model_files(encode({{path, 1}})), Error) << path;
  }
  for (const std::string text :
       {"1 a", "1\n", " a\n", "-1 a\n", "1x a\n", "a\n", "\n",
        "99999999999999999999 a\n", "1 a\n2 a\n"}) {
    EXPECT_THROW((void)decode_model_files(text), Error) << text;
  }
}

TEST(ModelFiles, HaveKeysOfTheirChunks) {
  EXPECT_EQ(chunk_of(key_of_chunk(3, 70000)),
            std::pair(std::size_t{3}, std::uint64_t{70000}));
  EXPECT_TRUE(asks_for_model(kModelFilesKey));
  EXPECT_TRUE(asks_for_model(key_of_chunk(0, 0)));
  EXPECT_FALSE(asks_for_model("init-latents"));
  for (const std::string key :
       {"model-file/", "model-file/1", "model-file/1/", "model-file//1",
        "model-file/1/2/3", "model-file/-1/2", "model-file/1/x", "1/2"}) {
    EXPECT_EQ(chunk_of(key), std::nullopt) << key;
  }
}

}  // namespace
}  // namespace troupe::actors
